#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# All that fuzzing has found to be worth keeping, and a moment of more by each harness: `make fuzz` takes longer.

exec "$(dirname "$0")/run.sh" "${B:?}/fuzz" 1
