#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The numbers and layouts of packets in other languages are those of protocol/. (Those of userevd-protocol(7): test_man.py.)

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import TREE, check, sum_up  # noqa: E402

sys.path.insert(0, os.path.join(TREE, "client/python"))
from userev import packets, traces  # noqa: E402

# What a client calls HELLO is KIND_HELLO in the headers.
PREFIXES = ("", "KIND_", "WIRE_", "WIRE_TRACED_", "REGISTER_", "BACKEND_", "REFUSAL_")
WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}


def source(name):
    with open(os.path.join(TREE, "protocol", name), encoding="utf-8") as file:
        return file.read()


def numbers_of_headers():
    text = re.sub(r"/\*.*?\*/", "", source("protocol.h") + source("refusal.h"), flags=re.S)
    text = re.sub(r"^#define\s+([A-Z_]+)\s+\(UINT64_C\(1\) (<< \d+)\)", r"\1 = 1 \2,", text, flags=re.M)
    model = {}
    for name, expression in re.findall(r"\b([A-Z_]+) = ([\w *+<]+)", text):
        model[name] = eval(expression, {}, model)  # pylint: disable=eval-used
    return model


def differences(numbers, model):
    """Of a client's numbers: each has to be one of the headers'."""
    wrong = []
    for name, number in numbers.items():
        known = {model[prefix + name] for prefix in PREFIXES if prefix + name in model}
        if known != {number}:
            wrong.append(f"{name} is {number} instead of {known or 'a number of the headers'}")
    return wrong


def constants(module):
    return {name: value for name, value in vars(module).items() if re.fullmatch("[A-Z][A-Z_]+", name) and isinstance(value, int)}


def numbers_of_go():
    """kindHello is KIND_HELLO."""
    with open(os.path.join(TREE, "client/go/packets.go"), encoding="utf-8") as file:
        text = file.read()
    block = re.search(r"^const \((.*?)^\)", text, re.M | re.S)[1]
    numbers = {re.sub("([A-Z])", r"_\1", name).upper(): int(number, 0) for name, number in re.findall(r"(\w+)\s+= (0x\w+|\d+)", block)}
    return numbers, dict((int(number), name) for number, name in re.findall(r'(\d+): "([\w-]+)"', text))


def numbers_of_rust():
    with open(os.path.join(TREE, "client/rust/src/packets.rs"), encoding="utf-8") as file:
        text = file.read()
    block = re.search(r"^numbers! {(.*?)^}", text, re.M | re.S)[1]
    numbers = {name: int(number, 0) for name, number in re.findall(r"(\w+) = (0x\w+|\d+)", block)}
    reasons = re.search(r'^const REASONS: &str = "none (.*?)";', text, re.M | re.S)[1].replace("\\", "").split()
    return numbers, dict(enumerate(reasons, 1))


def check_layouts():
    layouts = dict(re.findall(r'^#define LAYOUT_(\w+)\s+"(\d+)"', source("layout.h"), re.M))
    for name, layout in (("HEADER", packets._HEADER), ("WELCOME", packets._WELCOME), ("ANSWER", packets._ANSWER), ("PAIR", packets._COUNT)):
        widths = "".join(str(WIDTHS[code]) for code in layout.format[1:])
        check(f"Python: {name} has the layout of the headers", None if widths == layouts[name] else f"{widths} instead of {layouts[name]}")


def main():
    model = numbers_of_headers()
    check("the headers have numbers", None if len(model) > 60 and model["KIND_HELLO"] == 1 else model)
    for module in (packets, traces):
        check(f"Python: the numbers of {module.__name__} are those of the headers", differences(constants(module), model))
    names = {number: name[len("REFUSAL_"):].lower().replace("_", "-") for name, number in model.items() if name.startswith("REFUSAL_")}
    del names[model["REFUSAL_NONE"]]
    numbers, reasons = numbers_of_go()
    del numbers["HEADER_BYTES"]
    check("Go: the numbers are those of the headers", differences(numbers, model) or len(numbers) < 20)
    check("Go: refusals have the headers' names", sorted(set(names.items()) ^ set(reasons.items())))
    numbers, reasons = numbers_of_rust()
    check("Rust: the numbers are those of the headers", differences(numbers, model) or len(numbers) < 20)
    check("Rust: refusals have the headers' names", sorted(set(names.items()) ^ set(reasons.items())))
    check("Python: refusals have the headers' names", sorted(set(names.items()) ^ set(packets.REASONS.items())))
    check_layouts()


main()
sum_up()
