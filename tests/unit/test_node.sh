#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The client for Node, as it is installed from its package. Its behaviour: tests/integration/test_conformance.py.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Not this machine's own daemon.
export B USEREV_SOCKET=/nonexistent/socket

unpack()
{
	local version
	version=$(node -p 'require("./client/node/package.json").version')
	mkdir "$scratch/node_modules" && tar -C "$scratch/node_modules" -xzf "$B/userev-$version.tgz" &&
		mv "$scratch/node_modules/package" "$scratch/node_modules/userev" && cp -r client/node/test "$scratch"
}

syntax()
{
	local file
	for file in client/node/*.js client/node/*.mjs client/node/*/*.js tests/conformance/driver.js; do
		node --check "$file" || return
	done
}

exports()
{
	nm -D --defined-only "$B/node/userev.node" | grep -vE ' (napi_register_module_v1|node_api_module_get_api_version_v1)$'
}

own_tests()
{
	(cd "$scratch" && node --expose-gc test/userev.test.js) >"$scratch/log" 2>&1 || { cat "$scratch/log"; return 1; }
}

check 'each file is JavaScript' syntax
check 'the addon exports what Node calls, and nothing else' says_nothing exports
check 'the package can be unpacked' unpack
check 'its tests pass' own_tests
grep -h '# off, ns' "$scratch/log"
sum_up
