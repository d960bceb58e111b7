// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A connection to the daemon, with its events. Most programs have one for all of their life; it need not be closed then.
 *
 * <p>There is no thread of its own, except while an event has no daemon: tests of it start one that looks for a daemon, every second at
 * most.
 */
public final class Userev implements AutoCloseable {
    private static final long PAUSE_MIN_MS = 2;
    private static final long PAUSE_MAX_MS = 1000;

    /** Records that were lost since the connection was opened, by cause. */
    public record Losses(long queueFull, long tooBig) {}

    /** Where events are in a connection's memory, behind its page; the first one is always off. */
    static final int NOWHERE = 65536;

    private static final int EVENTS_MAX = 65536;

    /** Shared with the library. Unmapped when no thread can be reading it, after the end. */
    private final ByteBuffer memory;

    private long handle; // 0: closed, or there is no native library
    private final Set<Event> events = new HashSet<>();
    private final ArrayDeque<Integer> free = new ArrayDeque<>(); // places of closed events
    private int end = NOWHERE; // of the places that were used
    private final AtomicBoolean seeks = new AtomicBoolean();

    private Userev(String socket) {
        Library.LOCK.lock();
        try {
            memory = Library.PROBLEM != null ? null : Library.memory(NOWHERE + EVENTS_MAX * Event.SIZE);
            if (memory == null)
                return;
            handle = Library.open(memory, socket == null ? null : socket.getBytes(StandardCharsets.UTF_8));
            if (handle == 0)
                Library.unmapUnreachable(memory);
        } finally {
            Library.LOCK.unlock();
        }
    }

    /**
     * Connects to the daemon, and waits two seconds at most. Without a daemon the result is as good: events are off until there is one.
     * The socket is $USEREV_SOCKET, else /run/userevd/client/userevd.sock, else /run/userevd.sock.
     *
     * @return a connection
     */
    public static Userev open() {
        return new Userev(null);
    }

    /**
     * The same for a socket at another path.
     *
     * @param socket a path of at most 107 bytes; with a longer one all events are off
     * @return a connection
     */
    public static Userev open(String socket) {
        return new Userev(socket);
    }

    /**
     * Registers an event, and waits two seconds at most for the daemon's answer. Without an answer the event is off until there is one;
     * {@link Event#problem} returns a later refusal.
     *
     * @param description as in userevd-protocol(7): {@code shop_request u32 status; __rel_loc char[] path}
     * @param flags of the event
     * @return the event
     * @throws RefusedException if the daemon refuses it
     */
    public Event register(String description, Flag... flags) throws RefusedException {
        if (description.indexOf('\0') >= 0)
            throw new RefusedException(RefusedException.Reason.BAD_DESCRIPTION, "the description contains a NUL");
        Library.LOCK.lock();
        try {
            if (handle == 0)
                return Event.off();
            int at = takePlace();
            int[] reason = { 0 };
            String sentence = Library.text(into -> {
                reason[0] = Library.register(handle, memory, at, description.getBytes(StandardCharsets.UTF_8), Flag.bits(flags), into);
                return reason[0] != 0;
            });
            if (sentence != null) {
                free.push(at);
                throw new RefusedException(RefusedException.Reason.values()[reason[0] - 1], sentence);
            }
            Event event = new Event(this, memory, at);
            events.add(event);
            return event;
        } finally {
            Library.LOCK.unlock();
        }
    }

    /**
     * Registers an event with the components of a record as its fields: see {@link TypedEvent}.
     *
     * @param <R> the record's type
     * @param name the event's name
     * @param type the record's class
     * @param flags of the event
     * @return the event
     * @throws RefusedException if the daemon refuses it, or a component is no field
     */
    public <R extends Record> TypedEvent<R> declare(String name, Class<R> type, Flag... flags) throws RefusedException {
        return TypedEvent.declare(this, name, type, flags);
    }

    /**
     * Returns why there is no daemon, after an attempt to connect, which waits two seconds at most.
     *
     * @return a sentence, or null if there is a daemon
     */
    public String problem() {
        if (Library.PROBLEM != null)
            return Library.PROBLEM;
        Library.LOCK.lock();
        try {
            if (handle == 0)
                return "the connection is closed, or was never opened: its socket's path is too long, or there is no memory";
            return Library.text(into -> Library.problem(handle, into));
        } finally {
            Library.LOCK.unlock();
        }
    }

    /**
     * Counts records that were lost as {@link Outcome#QUEUE_FULL} or {@link Outcome#TOO_BIG}.
     *
     * @return the losses since the connection was opened
     */
    public Losses lost() {
        long[] counts = new long[2];
        Library.LOCK.lock();
        try {
            if (handle != 0)
                Library.losses(handle, counts);
        } finally {
            Library.LOCK.unlock();
        }
        return new Losses(counts[0], counts[1]);
    }

    /** Closes the connection and its events, which are off from now on. Closing it again has no effect. */
    @Override
    public void close() {
        Library.LOCK.lock();
        try {
            if (handle == 0)
                return;
            events.forEach(Event::shut);
            events.clear();
            Library.close(handle, memory);
            handle = 0;
            Library.unmapUnreachable(memory);
        } finally {
            Library.LOCK.unlock();
        }
    }

    void release(Event event) {
        Library.LOCK.lock();
        try {
            if (!events.remove(event))
                return;
            int at = event.shut();
            Library.release(handle, memory, at);
            free.push(at);
        } finally {
            Library.LOCK.unlock();
        }
    }

    private int takePlace() throws RefusedException {
        if (!free.isEmpty())
            return free.pop();
        if (end + 2 * Event.SIZE > memory.capacity())
            throw new RefusedException(RefusedException.Reason.NO_ROOM, "this connection is full: open another one");
        end += Event.SIZE;
        return end;
    }

    /**
     * An event has no daemon: looks for one, until all events have an answer. Does not block. The thread that delays the JDK's tasks would
     * never end, and a thread keeps the class loaders of the methods that started it.
     */
    void seek() {
        if (seeks.get() || !seeks.compareAndSet(false, true))
            return;
        try {
            Thread thread = new Thread(null, this::look, "userev", 0, false);
            thread.setDaemon(true);
            thread.start();
        } catch (OutOfMemoryError e) {
            // There can be no thread. From now on only calls that ask the daemon connect.
        }
    }

    private void look() {
        try {
            long pause = PAUSE_MIN_MS;
            do {
                Thread.sleep(pause);
                pause = Math.min(2 * pause, PAUSE_MAX_MS);
            } while (!isDone());
        } catch (InterruptedException e) {
            // The next test starts another thread.
        }
        seeks.set(false);
    }

    private boolean isDone() {
        if (!Library.LOCK.tryLock())
            return false;
        try {
            return handle == 0 || Library.poll(handle) == 0;
        } finally {
            Library.LOCK.unlock();
        }
    }
}
