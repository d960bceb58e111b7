#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Each harness on its corpus, and for a second more. `make fuzz` runs them longer.

exec "$(dirname "$0")/run.sh" "${B:?}/fuzz" 1
