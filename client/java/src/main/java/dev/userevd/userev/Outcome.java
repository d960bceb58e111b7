// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

/** What became of a record. Most programs need not look at it: {@link Userev#lost} counts those that are QUEUE_FULL or TOO_BIG. */
public enum Outcome {
    /** The record was written. */
    WRITTEN,
    /** The event is off, or was closed. */
    OFF,
    /** The record is lost: the daemon, which is the tracer here, has not read earlier ones yet. */
    QUEUE_FULL,
    /** The record is lost: it is larger than 4,064 bytes, or than the daemon's maximum. */
    TOO_BIG,
    /** The record is lost: creating it threw an exception, it is shorter than the fields of its event, or the system refused it. */
    FAILED;

    private static final Outcome[] ALL = values();

    static Outcome of(int ordinal) {
        return ALL[ordinal];
    }
}
