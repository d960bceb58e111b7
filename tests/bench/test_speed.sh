#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Ratios of broker and direct calls, in a guest that counts instructions, stay below tests/bench/limits.txt. The host may be busy.

exec tests/bench/run.py --check --timeout-factor=8 "$B"
