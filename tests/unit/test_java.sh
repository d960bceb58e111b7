#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The client for Java: its documentation, its jars, and its own tests. Its behaviour: tests/integration/test_conformance.py.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
version=$(sed -n 's/^VERSION := //p' Makefile)
jars=$B/userev-$version.jar:$B/userev-logging-$version.jar
main=client/java/src/main/java logging=client/java/logging/src/main/java
export USEREV_SOCKET=$scratch/socket

# The JVM is not configured by the environment of the tests.
unset JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS

is_documented()
{
	javadoc -quiet -Xdoclint:all -Werror -d "$scratch/doc" --module-source-path "dev.userevd.userev=$main" \
		--module-source-path "dev.userevd.userev.logging=$logging" --module dev.userevd.userev,dev.userevd.userev.logging
}

compiles()
{
	javac -Xlint:all -Werror --release 17 --add-modules jdk.management -cp "$jars" -d "$scratch/classes" \
		client/java/src/test/java/Checks.java client/java/examples/*.java
}

# In order, and of one date: the same sources give the same bytes.
is_reproducible()
{
	python3 -c '
import sys, zipfile
for jar in sys.argv[1].split(":"):
    entries = zipfile.ZipFile(jar).infolist()
    names = [entry.filename for entry in entries if not entry.filename.startswith(("META-INF/MANIFEST", "module-info"))][1:]
    assert names == sorted(names) and len({entry.date_time for entry in entries}) == 1, entries
    assert any(name.endswith("pom.properties") for name in names), names' "$jars"
}

tests_pass()
{
	timeout 300 java -Xmx256m -XX:+UseSerialGC -Xcheck:jni -Dversion="$version" -p "$jars" --add-modules ALL-MODULE-PATH -cp "$scratch/classes" \
		Checks "$B" "$scratch" >"$scratch/output" 2>&1
	local status=$?
	cat "$scratch/output"
	return $status
}

check 'no line is longer than 140 columns, and none has a tab' says_nothing grep -rnP '\t|\s$|.{141}' --include='*.java' client/java tests/conformance
check 'everything public is documented' is_documented
check 'tests and example compile without a warning' compiles
check 'the jars have everything, in order' is_reproducible
check 'the native library exports one function' says '^1$' eval 'nm -D --defined-only "$B/java/libuserev-jni.so" | wc -l'
check 'its tests pass' tests_pass
grep ' isOn() ' "$scratch/output"
check 'JNI finds no fault' says_not '^(WARNING|FATAL)' cat "$scratch/output"
sum_up
