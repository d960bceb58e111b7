// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * A record that is built field by field, in the order of the event's description:
 *
 * <pre>{@code
 * event.begin().int32(404).string("/favicon.ico").end();
 * }</pre>
 *
 * <p>One thread builds it, and does not use it after its end, because a later record may use it again. Nothing is allocated for that.
 */
public final class RecordBuilder {
    private static final int PAYLOAD_MAX = 4064;
    private static final int DYNAMIC_MAX = 256; // no description has as many

    /** Ignores all calls. */
    static final RecordBuilder OFF = new RecordBuilder(null);

    /** Those not in use. No thread has one of its own: there may be very many virtual threads. */
    private static final AtomicReferenceArray<RecordBuilder> POOL =
        new AtomicReferenceArray<>(2 * Integer.highestOneBit(Math.min(Runtime.getRuntime().availableProcessors(), 32)));

    private final ByteBuffer buffer; // the fields, and behind PAYLOAD_MAX the contents of dynamic ones
    private final int[] dynamic = new int[DYNAMIC_MAX]; // where they are
    private Event event; // null: all calls are ignored
    private int end; // of the fields
    private int dataEnd;
    private int dynamicCount;
    private boolean isTooBig;

    private RecordBuilder(ByteBuffer buffer) {
        this.buffer = buffer;
    }

    static RecordBuilder take(Event event) {
        RecordBuilder taken = null;
        for (int i = 0, start = start(); i < POOL.length() && taken == null; i++) {
            int at = start + i & POOL.length() - 1;
            taken = POOL.get(at) == null ? null : POOL.getAndSet(at, null);
        }
        if (taken == null)
            taken = new RecordBuilder(ByteBuffer.allocate(2 * PAYLOAD_MAX).order(ByteOrder.nativeOrder()));
        taken.event = event;
        taken.end = 0;
        taken.dataEnd = PAYLOAD_MAX;
        taken.dynamicCount = 0;
        taken.isTooBig = false;
        return taken;
    }

    void giveBack() {
        event = null;
        for (int i = 0, start = start(); i < POOL.length(); i++)
            if (POOL.compareAndSet(start + i & POOL.length() - 1, null, this))
                return;
    }

    /** Threads begin to search at different places. */
    private static int start() {
        return (int) Thread.currentThread().getId();
    }

    boolean isOff() {
        return event == null;
    }

    private boolean fits(int size) {
        if (event == null)
            return false;
        isTooBig |= size < 0 || size > PAYLOAD_MAX - end;
        if (!isTooBig)
            end += size;
        return !isTooBig;
    }

    /**
     * Adds a u8 or s8.
     *
     * @param value its lowest 8 bits are taken
     * @return this
     */
    public RecordBuilder int8(int value) {
        if (fits(1))
            buffer.put(end - 1, (byte) value);
        return this;
    }

    /**
     * Adds a u16 or s16.
     *
     * @param value its lowest 16 bits are taken
     * @return this
     */
    public RecordBuilder int16(int value) {
        if (fits(2))
            buffer.putShort(end - 2, (short) value);
        return this;
    }

    /**
     * Adds a u32 or s32.
     *
     * @param value the number
     * @return this
     */
    public RecordBuilder int32(int value) {
        if (fits(4))
            buffer.putInt(end - 4, value);
        return this;
    }

    /**
     * Adds a u64 or s64.
     *
     * @param value the number
     * @return this
     */
    public RecordBuilder int64(long value) {
        if (fits(8))
            buffer.putLong(end - 8, value);
        return this;
    }

    /**
     * Adds a u32 whose name ends with _f32.
     *
     * @param value the number
     * @return this
     */
    public RecordBuilder float32(float value) {
        return int32(Float.floatToRawIntBits(value));
    }

    /**
     * Adds a u64 whose name ends with _f64.
     *
     * @param value the number
     * @return this
     */
    public RecordBuilder float64(double value) {
        return int64(Double.doubleToRawLongBits(value));
    }

    /**
     * Adds a u8: 1 or 0.
     *
     * @param value whether it is 1
     * @return this
     */
    public RecordBuilder bool(boolean value) {
        return int8(value ? 1 : 0);
    }

    /**
     * Adds a char[size] or a struct of that size. Missing bytes are zeros, and further ones are left out.
     *
     * @param value the bytes; null is none
     * @param size of the field
     * @return this
     */
    public RecordBuilder fixed(byte[] value, int size) {
        int length = value == null ? 0 : Math.min(value.length, size);
        if (fits(size)) {
            if (length > 0)
                buffer.put(end - size, value, 0, length);
            for (int at = end - size + length; at < end; at++)
                buffer.put(at, (byte) 0);
        }
        return this;
    }

    /**
     * Adds a __rel_loc char[].
     *
     * @param value the text; null is an empty one
     * @return this
     */
    public RecordBuilder string(String value) {
        return string(value, Integer.MAX_VALUE);
    }

    /**
     * Adds a __rel_loc char[], shortened at the end of a character. A record that is too big is lost.
     *
     * @param value the text; null is an empty one
     * @param max the largest size in bytes
     * @return this
     */
    public RecordBuilder string(String value, int max) {
        if (fits(4)) {
            int from = dataEnd;
            encode(value == null ? "" : value, max);
            data(0);
            locate(from);
        }
        return this;
    }

    /** Encodes UTF-8 without garbage, which String.getBytes() would leave. */
    private void encode(String text, int max) {
        for (int i = 0, from = dataEnd; i < text.length() && !isTooBig; i++) {
            int c = text.charAt(i);
            boolean isPair = Character.isHighSurrogate((char) c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1));
            if (isPair)
                c = Character.toCodePoint((char) c, text.charAt(++i));
            else if (Character.isSurrogate((char) c))
                c = '?';
            int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            if (dataEnd - from + more >= max)
                return;
            // The first byte shows the length, and has the bits that do not fit into those that follow, six in each.
            data(more == 0 ? c : 0xff00 >> more + 1 & 0xff | c >> 6 * more);
            for (int shift = 6 * (more - 1); shift >= 0; shift -= 6)
                data(0x80 | c >> shift & 0x3f);
        }
    }

    private void data(int value) {
        isTooBig |= dataEnd == 2 * PAYLOAD_MAX;
        if (!isTooBig)
            buffer.put(dataEnd++, (byte) value);
    }

    /**
     * Adds another __rel_loc array, such as u8[].
     *
     * @param value the array's bytes; null is an empty array
     * @return this
     */
    public RecordBuilder bytes(byte[] value) {
        int size = value == null ? 0 : value.length;
        if (fits(4)) {
            isTooBig |= size > 2 * PAYLOAD_MAX - dataEnd;
            if (size > 0 && !isTooBig)
                buffer.put(dataEnd, value);
            dataEnd += isTooBig ? 0 : size;
            locate(dataEnd - size);
        }
        return this;
    }

    /** The location of the last field: size, and for now the offset among the data. */
    private void locate(int from) {
        isTooBig |= dynamicCount == DYNAMIC_MAX;
        if (isTooBig)
            return;
        dynamic[dynamicCount++] = end - 4;
        buffer.putInt(end - 4, dataEnd - from << 16 | from - PAYLOAD_MAX);
    }

    RecordBuilder raw(byte[] payload) {
        return fixed(payload, payload == null ? 0 : payload.length);
    }

    /** Brings the dynamic fields behind the others. Returns the size; -1 if the record is too big. */
    private int finish() {
        int size = end + dataEnd - PAYLOAD_MAX;
        if (isTooBig || size > PAYLOAD_MAX)
            return -1;
        for (int i = 0; i < dynamicCount; i++)
            buffer.putInt(dynamic[i], buffer.getInt(dynamic[i]) + end - dynamic[i] - 4);
        buffer.put(end, buffer, PAYLOAD_MAX, size - end);
        return size;
    }

    /**
     * Writes the record. Never waits.
     *
     * @return what became of it
     */
    public Outcome end() {
        if (event == null)
            return Outcome.OFF;
        Outcome outcome = event.write(buffer.array(), finish());
        giveBack();
        return outcome;
    }
}
