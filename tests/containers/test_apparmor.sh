#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Containers with the AppArmor profiles that Docker and Podman give them, in a guest whose kernel has AppArmor.

cd "$(dirname "$0")/../.." || exit 1
grep -q Y /sys/module/apparmor/parameters/enabled || { echo '0 passed, 1 failed: there is no AppArmor'; exit 1; }
ENGINES='docker podman' exec tests/containers/test_containers.sh
