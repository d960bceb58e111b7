// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

/** Flags of an event. */
public enum Flag {
    /** Keep the event after its last program has gone, where policy and kernel allow it. */
    PERSIST,
    /** Allow events of the same name with other fields. */
    MULTI_FORMAT;

    /** As in userev.h. */
    static int bits(Flag[] flags) {
        int bits = 0;
        for (Flag flag : flags)
            bits |= 1 << flag.ordinal();
        return bits;
    }
}
