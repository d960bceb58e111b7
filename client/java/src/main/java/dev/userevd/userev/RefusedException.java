// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

/**
 * The daemon has refused an event. Its message says how to correct that. It is checked, so that a program decides to run on without the
 * event: with {@link Event#off} or {@link TypedEvent#off} in the event's place.
 */
public final class RefusedException extends Exception {
    private static final long serialVersionUID = 1;

    /** Why an event is refused. */
    public enum Reason {
        /** The description is wrong, or a record has a component that is no field. */
        BAD_DESCRIPTION,
        /** An event with other fields has this name. */
        NAME_TAKEN,
        /** The tenant has reached its maximum of events. */
        QUOTA_EXCEEDED,
        /** The status page or the machine has no room for another event. */
        NO_ROOM,
        /** The policy forbids it. */
        NOT_PERMITTED,
        /** This kernel does not support it. */
        NOT_SUPPORTED,
        /** There is no memory, or the daemon has an internal error. */
        TROUBLE
    }

    /** The reason. */
    private final Reason reason;

    RefusedException(Reason reason, String sentence) {
        super(sentence);
        this.reason = reason;
    }

    /**
     * Returns the reason, for programs; {@link #getMessage} is for people.
     *
     * @return the reason
     */
    public Reason reason() {
        return reason;
    }
}
