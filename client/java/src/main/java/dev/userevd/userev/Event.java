// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.nio.ByteBuffer;
import java.util.concurrent.locks.StampedLock;

/** An event. It is registered until it, or its {@link Userev}, is closed. */
public final class Event implements AutoCloseable {
    /** Of the library's struct, in bytes, and where its bit is: 0 while it is off, negative while it waits for a daemon. */
    static final int SIZE = 24;

    private static final int BIT_AT = 22;

    private static final Event OFF = new Event(null, ByteBuffer.allocateDirect(SIZE), 0);

    private final Userev userev;
    private final ByteBuffer memory; // of the userev: the status page, and the events
    private volatile int at; // where the event is
    private final StampedLock users = new StampedLock(); // close() locks it for ever
    private volatile boolean isClosed;

    Event(Userev userev, ByteBuffer memory, int at) {
        this.userev = userev;
        this.memory = memory;
        this.at = at;
    }

    /**
     * Returns an event that is always off, in place of one that was refused.
     *
     * @return the event
     */
    public static Event off() {
        return OFF;
    }

    /**
     * Returns whether a tracer has enabled the event. Costs two loads and a branch while it is off; never waits, allocates or calls
     * native code.
     *
     * @return whether the event is on
     */
    public boolean isOn() {
        ByteBuffer shared = memory;
        // To read a volatile variable first makes each test of a loop read the memory again.
        int bit = shared.getShort(at + BIT_AT);
        return bit != 0 && isOn(shared, bit);
    }

    private boolean isOn(ByteBuffer shared, int bit) {
        if (bit > 0) {
            if ((shared.get(bit >> 3) & 1 << (bit & 7)) == 0)
                return false;
            // Bit 0 is no event's: all bits are set when no daemon serves the page any longer.
            if ((shared.get(0) & 1) == 0)
                return true;
        }
        userev.seek();
        return false;
    }

    /**
     * Begins a record. While the event is off, the result ignores all calls.
     *
     * @return a record to add fields to
     */
    public RecordBuilder begin() {
        return isOn() ? RecordBuilder.take(this) : RecordBuilder.OFF;
    }

    /**
     * Writes a record: its fields in their order, without padding, in the machine's byte order. Never waits.
     *
     * @param payload the record
     * @return what became of it
     */
    public Outcome write(byte[] payload) {
        return begin().raw(payload).end();
    }

    /** The library must not release an event that is in use, so writers have the lock for reading. They never wait for it. */
    Outcome write(byte[] record, int size) {
        long stamp = isClosed ? 0 : users.tryReadLock();
        if (stamp == 0)
            return Outcome.OFF;
        try {
            return Outcome.of(Library.write(memory, at, record, size));
        } finally {
            users.unlockRead(stamp);
        }
    }

    /**
     * Returns the event's name, with the prefix that the policy may have added.
     *
     * @return the name, or null while the daemon has not granted the event
     */
    public String name() {
        Library.LOCK.lock();
        try {
            return isRegistered() ? Library.text(into -> Library.name(memory, at, into)) : null;
        } finally {
            Library.LOCK.unlock();
        }
    }

    /**
     * Returns why the event has not been granted.
     *
     * @return the daemon's refusal, or the state of the connection; null if the daemon has granted the event
     */
    public String problem() {
        Library.LOCK.lock();
        try {
            if (Library.PROBLEM != null)
                return Library.PROBLEM;
            return isRegistered() ? Library.text(into -> Library.problem(memory, at, into)) : "the event is not registered";
        } finally {
            Library.LOCK.unlock();
        }
    }

    private boolean isRegistered() {
        return userev != null && !isClosed;
    }

    /** Releases the event, which is off from now on. Waits two seconds at most for the daemon. Closing it again has no effect. */
    @Override
    public void close() {
        if (userev != null)
            userev.release(this);
    }

    /** Waits until no thread is writing a record. Returns where the library has the event. */
    int shut() {
        int place = at;
        isClosed = true;
        users.writeLock();
        at = Userev.NOWHERE;
        return place;
    }
}
