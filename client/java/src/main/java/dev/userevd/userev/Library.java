// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
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

    private static final int TEXT_MAX = 1024;

    /**
     * Memory that is no longer in use, but may be read by a thread that has not noticed. A Cleaner would have a thread, for which the class
     * loader would never be garbage. If the loader is collected before it is unmapped, only addresses are lost: see close_userev().
     */
    private static final class Closed extends PhantomReference<ByteBuffer> {
        private static final ReferenceQueue<ByteBuffer> UNREACHABLE = new ReferenceQueue<>();
        private static final Set<Closed> ALL = new HashSet<>(); // guarded by LOCK

        private final long address;
        private final int size;

        Closed(ByteBuffer memory) {
            super(memory, UNREACHABLE);
            address = address(memory);
            size = memory.capacity();
            ALL.add(this);
        }

        static void unmap() {
            while (UNREACHABLE.poll() instanceof Closed closed) {
                Library.unmap(closed.address, closed.size);
                ALL.remove(closed);
            }
        }
    }

    private Library() {}

    private static String load() {
        try {
            System.loadLibrary("userev-jni");
            unmap(0, 0); // has no effect, and fails if this is another library
            return null;
        } catch (LinkageError | RuntimeException e) { // of Java 24, too, if it denies native access
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

    /** Zeros; null if there is no memory. With the lock held. */
    static ByteBuffer memory(int size) {
        Closed.unmap();
        ByteBuffer memory = map(size);
        return memory == null ? null : memory.order(ByteOrder.nativeOrder());
    }

    /**
     * Returns the memory to the system some time after the last thread could reach the buffer. With the lock held, and never called while
     * the library may write there.
     */
    static void unmapUnreachable(ByteBuffer memory) {
        Closed.unmap();
        new Closed(memory);
    }

    static native long open(ByteBuffer memory, byte[] socket);

    static native void close(long userev, ByteBuffer memory);

    static native int poll(long userev);

    static native boolean problem(long userev, byte[] text);

    static native void losses(long userev, long[] counts);

    static native int register(long userev, ByteBuffer memory, int event, byte[] description, int flags, byte[] sentence);

    static native void release(long userev, ByteBuffer memory, int event);

    static native boolean name(ByteBuffer memory, int event, byte[] text);

    static native boolean problem(ByteBuffer memory, int event, byte[] text);

    static native int write(ByteBuffer memory, int event, byte[] record, int size);

    private static native ByteBuffer map(int size);

    private static native long address(ByteBuffer memory);

    private static native void unmap(long address, int size);
}
