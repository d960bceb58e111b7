// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;
import java.util.stream.Stream;

/** The native library, and memory that it shares with Java. */
final class Library {
    /**
     * Is held while the daemon may be asked, so that virtual threads wait here instead of in the library, where they would pin their
     * carriers. Writing records does not take it.
     */
    static final ReentrantLock LOCK = new ReentrantLock();

    /** Why there is no native library, or null. */
    static final String PROBLEM = load();

    private static final Cleaner CLEANER = Cleaner.create();
    private static final int TEXT_MAX = 1024;

    private Library() {}

    private static String load() {
        try {
            System.loadLibrary("userev-jni");
            unmap(0, 0); // has no effect, and fails if this is another library
            return null;
        } catch (LinkageError | SecurityException e) {
            return loadFromJar();
        }
    }

    private static String loadFromJar() {
        String resource = "/META-INF/native/linux-" + System.getProperty("os.arch") + "/libuserev-jni.so";
        byte[] library;
        try (InputStream in = Library.class.getResourceAsStream(resource)) {
            if (in == null)
                return "the jar of userev has no " + resource + ": install libuserev-jni.so on java.library.path";
            library = in.readAllBytes();
        } catch (IOException e) {
            return "the jar of userev cannot be read: " + e.getMessage();
        }
        StringBuilder problem = new StringBuilder("libuserev-jni.so cannot be loaded; set java.io.tmpdir to a directory that is "
            + "writable and not mounted noexec, or install it on java.library.path:");
        String[] directories = Stream.of(System.getProperty("java.io.tmpdir"), "/dev/shm", System.getenv("XDG_RUNTIME_DIR"), "/var/tmp")
            .filter(Objects::nonNull).toArray(String[]::new);
        for (String directory : directories) {
            try {
                loadFrom(Path.of(directory), library);
                return null;
            } catch (IOException | LinkageError | RuntimeException e) {
                problem.append(' ').append(e).append(';');
            }
        }
        return problem.toString();
    }

    /** The file has a name of its own, because one file can be loaded by one class loader only. */
    private static void loadFrom(Path directory, byte[] library) throws IOException {
        Path file = Files.createTempFile(directory, "libuserev-jni", ".so");
        try {
            Files.write(file, library);
            System.load(file.toAbsolutePath().toString());
        } finally {
            Files.delete(file);
        }
    }

    /** The text that this call stores, which ends at a NUL; null if it is false. */
    static String text(Predicate<byte[]> call) {
        byte[] bytes = new byte[TEXT_MAX];
        if (!call.test(bytes))
            return null;
        int end = 0;
        while (end < bytes.length && bytes[end] != 0)
            end++;
        return new String(bytes, 0, end, StandardCharsets.UTF_8);
    }

    /** Zeros; null if there is no memory. */
    static ByteBuffer memory(int size) {
        ByteBuffer memory = map(size);
        return memory == null ? null : memory.order(ByteOrder.nativeOrder());
    }

    /** Returns the memory to the system when no thread can reach the buffer any more. Never called while the library may write there. */
    static void unmapUnreachable(ByteBuffer memory) {
        long address = address(memory);
        int size = memory.capacity();
        CLEANER.register(memory, () -> unmap(address, size));
    }

    static native long open(ByteBuffer memory, byte[] socket);

    static native void close(long userev);

    static native int poll(long userev);

    static native boolean problem(long userev, byte[] text);

    static native void losses(long userev, long[] counts);

    static native int register(long userev, ByteBuffer memory, int event, byte[] description, int flags, byte[] sentence);

    static native void release(long userev, ByteBuffer memory, int event);

    static native boolean name(ByteBuffer memory, int event, byte[] text);

    static native boolean problem(ByteBuffer memory, int event, byte[] text);

    static native int write(ByteBuffer memory, int event, ByteBuffer record, int size);

    private static native ByteBuffer map(int size);

    private static native long address(ByteBuffer memory);

    private static native void unmap(long address, int size);
}
