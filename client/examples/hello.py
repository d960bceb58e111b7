#!/usr/bin/env python3
# SPDX-License-Identifier: CC0-1.0
"""One record a second; `userevctl tail hello_said` prints them. The module is client/python/userev."""
import time

import userev

said = userev.event("hello_said u32 count; __rel_loc char[] whom")

for count in range(1, 61):
    if said.enabled:
        said.emit(count, "world")
    time.sleep(1)
