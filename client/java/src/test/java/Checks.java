// SPDX-License-Identifier: GPL-2.0-or-later

import com.sun.management.ThreadMXBean;
import dev.userevd.userev.Event;
import dev.userevd.userev.Name;
import dev.userevd.userev.Outcome;
import dev.userevd.userev.RecordBuilder;
import dev.userevd.userev.RefusedException;
import dev.userevd.userev.TypedEvent;
import dev.userevd.userev.Unsigned;
import dev.userevd.userev.Userev;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Tests of the client for Java, with daemons of its own: Checks BUILD DIRECTORY. */
public final class Checks {
    private record Visit(@Unsigned int status, long payloadSize, float load, double share, boolean hit, @Unsigned byte small, short low,
        @Name("verb") String method, byte[] body) {}

    private record Wrong(List<String> list) {}

    private record Throwing(int value) {
        Throwing {
            if (value == 0)
                throw new IllegalArgumentException();
        }

        @Override
        public int value() {
            throw new IllegalStateException();
        }
    }

    private interface Check {
        void run() throws Exception;
    }

    private static final int EVENTS = 5000;
    private static int failed;
    private static int passed;
    private static Path build;
    private static Path directory;
    private static Process daemon;

    private static void check(String sentence, Check check) {
        long began = System.nanoTime();
        try {
            check.run();
            passed++;
            System.out.printf("ok    %s (%d ms)%n", sentence, (System.nanoTime() - began) / 1_000_000);
        } catch (Exception | AssertionError | LinkageError e) {
            failed++;
            System.out.println("FAIL  " + sentence);
            e.printStackTrace(System.out);
        }
    }

    private static void expect(boolean isTrue, Object... state) {
        if (!isTrue)
            throw new AssertionError(List.of(state).toString());
    }

    private static void eventually(BooleanSupplier condition) {
        for (long end = System.nanoTime() + 60_000_000_000L; !condition.getAsBoolean(); LockSupport.parkNanos(1_000_000))
            expect(System.nanoTime() - end < 0, "in vain");
    }

    private static String socket() {
        return directory + "/socket";
    }

    private static ProcessBuilder program(String name, String... arguments) {
        List<String> words = new ArrayList<>(List.of(build.resolve(name).toString()));
        words.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(words).redirectError(new File(directory + "/log"));
        builder.environment().put("USEREV_CONTROL_SOCKET", directory + "/control");
        return builder;
    }

    private static void startDaemon() throws IOException {
        Files.writeString(directory.resolve("a.conf"), "[/]\nMaxEvents=" + (EVENTS + 40) + "\nAllowMultiFormat=no\n");
        daemon = program("userevd", "--foreground", "--exit-with-parent", "--backend=embedded", "--socket=" + socket(),
            "--control-socket=" + directory + "/control", "--policy=" + directory, "--ready-fd=1").start();
        expect(daemon.getInputStream().read() == '\n', "the daemon does not start");
    }

    private static void killDaemon() throws InterruptedException {
        daemon.destroyForcibly().waitFor();
        // A helper of root's removes it; it could be the next one's.
        if (System.getProperty("user.name").equals("root"))
            eventually(() -> !Files.exists(Path.of(socket())));
    }

    private record Tracer(Process process, BufferedReader lines) implements AutoCloseable {
        static Tracer of(String... names) throws IOException {
            List<String> words = new ArrayList<>(List.of("tail", "--json", "--wait"));
            words.addAll(List.of(names));
            Process process = program("userevctl", words.toArray(String[]::new)).start();
            return new Tracer(process, process.inputReader(StandardCharsets.UTF_8));
        }

        String fields() throws IOException {
            return lines.readLine().replaceFirst(".*\"fields\":", "").replaceAll("}$", "");
        }

        @Override
        public void close() throws IOException {
            process.destroy();
            lines.close();
        }
    }

    private static RefusedException refusalOf(Check check) throws Exception {
        try {
            check.run();
        } catch (RefusedException e) {
            return e;
        }
        throw new AssertionError("it is not refused");
    }

    // Without a daemon.

    private static void offWithoutDaemon() throws Exception {
        Userev userev = Userev.open(directory + "/nobody");
        Event event = userev.register("e u32 x");
        expect(!event.isOn() && event.write(new byte[4]) == Outcome.OFF && event.name() == null);
        expect(userev.problem().contains("No such file"), userev.problem());
        expect(event.problem().contains("there is no daemon"), event.problem());
        useAfterEnd(event, event::close);
        useAfterEnd(userev.register("f u32 x"), userev::close);
        expect(!userev.register("g u32 x").isOn() && userev.problem().contains("closed") && userev.lost().tooBig() == 0);
        useAfterEnd(Event.off(), Event.off()::close);
        expect(TypedEvent.<Visit>off().emit((Visit) null) == Outcome.OFF);
        expect(!Userev.open("/" + "x".repeat(200)).register("e u32 x").isOn());
    }

    private static void useAfterEnd(Event event, Check end) throws Exception {
        for (int i = 0; i < 2; i++) {
            end.run();
            expect(!event.isOn() && event.write(new byte[4]) == Outcome.OFF && event.begin().int32(1).end() == Outcome.OFF);
            expect(event.name() == null && event.problem() != null);
            event.close();
        }
    }

    /** The fewest bytes of several runs, since in some of them the JVM compiles. */
    private static long allocated(Runnable run) {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long id = Thread.currentThread().getId(), fewest = Long.MAX_VALUE;
        for (int i = 0; i < 6; i++) {
            long before = threads.getThreadAllocatedBytes(id);
            run.run();
            fewest = Math.min(fewest, threads.getThreadAllocatedBytes(id) - before);
        }
        return fewest;
    }

    private static final Visit VISIT = new Visit(-1, -2, 1.5f, -0.5, true, (byte) 255, (short) -3, "GET", new byte[] { 1, 2 });

    private static void offAllocatesNothing(Event event, TypedEvent<Visit> typed) {
        expect(!event.isOn() && !typed.isOn());
        long bytes = allocated(() -> {
            for (int i = 0; i < 10_000; i++) {
                if (event.isOn() || typed.isOn())
                    throw new AssertionError();
                event.begin().int32(404).string("/").bytes(null).end();
                typed.emit(VISIT);
                typed.emit(() -> VISIT);
            }
        });
        expect(bytes == 0, bytes);
    }

    private static volatile boolean isOn;

    private static int read(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++)
            sum += isOn ? 1 : 0;
        return sum;
    }

    private static int test(Event event, int n) {
        int sum = 0;
        for (int i = 0; i < n; i++)
            sum += event.isOn() ? 1 : 0;
        return sum;
    }

    /** Printed only: on a busy machine it says little. */
    private static void printCost(String how, Event event) {
        int n = 5_000_000;
        double read = Double.MAX_VALUE, test = Double.MAX_VALUE;
        for (int round = 0; round < 8; round++) {
            long began = System.nanoTime();
            expect(read(n) == 0);
            long between = System.nanoTime();
            expect(test(event, n) == 0);
            read = Math.min(read, (double) (between - began) / n);
            test = Math.min(test, (double) (System.nanoTime() - between) / n);
        }
        System.out.printf("      %s, isOn() takes %.2f ns, and reading a volatile field %.2f ns: %.1f times as long%n", how, test, read,
            test / read);
    }

    // With a daemon.

    private static void recordsOfAllTypes(Userev userev) throws Exception {
        try (Tracer tracer = Tracer.of("t_visit", "t_text", "t_same", "t_throwing")) {
            TypedEvent<Visit> visits = userev.declare("t_visit", Visit.class);
            // With other fields it would be refused.
            userev.register("t_visit u32 status; s64 payload_size; u32 load_f32; u64 share_f64; u8 hit; u8 small; s16 low; "
                + "__rel_loc char[] verb; __rel_loc u8[] body").close();
            eventually(visits::isOn);
            expect(visits.event().name().equals("t_visit") && visits.event().problem() == null);
            expect(visits.emit(VISIT) == Outcome.WRITTEN && visits.emit(() -> VISIT) == Outcome.WRITTEN);
            String wanted = "{\"status\":4294967295,\"payload_size\":-2,\"load_f32\":1.5,\"share_f64\":-0.5,\"hit\":1,"
                + "\"small\":255,\"low\":-3,\"verb\":\"GET\",\"body\":[1,2]}";
            for (int i = 0; i < 2; i++) {
                String came = tracer.fields();
                expect(came.equals(wanted), came);
            }
            TypedEvent<Throwing> throwing = userev.declare("t_throwing", Throwing.class);
            eventually(throwing::isOn);
            expect(throwing.emit(new Throwing(1)) == Outcome.FAILED && throwing.emit((Throwing) null) == Outcome.FAILED);
            expect(throwing.emit(() -> new Throwing(0)) == Outcome.FAILED && throwing.emit(() -> null) == Outcome.FAILED);

            Event text = userev.register("t_text __rel_loc char[] a; u16 n; char[3] f; __rel_loc char[] b; __rel_loc u8[] c; "
                + "__rel_loc char[] d");
            eventually(text::isOn);
            String hard = "Ångström € 𝄞 \u07ff\u0800\uffff";
            RecordBuilder record = text.begin().string(hard).int16(65535).fixed(new byte[] { 'f' }, 3).string("€€€", 8).bytes(null);
            expect(record.string("a\ud800b").end() == Outcome.WRITTEN);
            String came = tracer.fields();
            expect(came.equals("{\"a\":\"" + hard + "\",\"n\":65535,\"f\":\"f\",\"b\":\"€€\",\"c\":[],\"d\":\"a?b\"}"), came);

            Event same = userev.register("t_same __rel_loc char[] a; __rel_loc u8[] b");
            eventually(same::isOn);
            expect(same.begin().string("x".repeat(4055)).bytes(new byte[0]).end() == Outcome.WRITTEN);
            expect(tracer.fields().length() > 4055);
            long before = userev.lost().tooBig();
            expect(same.begin().string("x".repeat(4056)).bytes(null).end() == Outcome.TOO_BIG);
            expect(same.begin().string("€".repeat(5000)).bytes(new byte[1 << 20]).end() == Outcome.TOO_BIG);
            expect(same.begin().fixed(null, Integer.MAX_VALUE).int64(1).end() == Outcome.TOO_BIG);
            expect(same.write(new byte[4065]) == Outcome.TOO_BIG && same.begin().fixed(null, -1).end() == Outcome.TOO_BIG);
            RecordBuilder fields = same.begin();
            for (int i = 0; i < 300; i++)
                fields.bytes(null);
            expect(fields.end() == Outcome.TOO_BIG && userev.lost().tooBig() == before + 6, userev.lost());

            // A dropped record is never written, and an unfinished one is nobody else's.
            RecordBuilder unfinished = same.begin();
            expect(same.begin() != unfinished);
            long size = addressSpace();
            for (int i = 0; i < 40_000; i++)
                same.begin();
            expect(addressSpace() < size + ADDRESSES, "records without an end are garbage");
            long bytes = allocated(() -> {
                for (int i = 0; i < 2000; i++) {
                    same.begin().string("text €").bytes(VISIT.body).end();
                    visits.emit(VISIT);
                }
            });
            expect(bytes == 0, "a record allocates", bytes);
        }
    }

    private static void refusals(Userev userev) throws Exception {
        RefusedException e = refusalOf(() -> userev.register("t_bad float x"));
        expect(e.reason() == RefusedException.Reason.BAD_DESCRIPTION && e.getMessage().contains("float"), e);
        e = refusalOf(() -> userev.register("t_bad u32 x\0; u32 y"));
        expect(e.reason() == RefusedException.Reason.BAD_DESCRIPTION && e.getMessage().contains("NUL"), e);
        e = refusalOf(() -> userev.register("t_bad u8 " + "x".repeat(5000)));
        expect(e.getMessage().contains("511"), e);
        userev.register("t_taken u32 x");
        e = refusalOf(() -> userev.register("t_taken u64 x"));
        expect(e.reason() == RefusedException.Reason.NAME_TAKEN && e.getMessage().contains("u32 x"), e);
        e = refusalOf(() -> userev.declare("t_bad", Wrong.class));
        expect(e.getMessage().contains("component list"), e);
    }

    private static void thousandsOfEvents() throws Exception {
        try (Userev userev = Userev.open(socket()); Tracer tracer = Tracer.of("many_*")) {
            List<Event> events = new ArrayList<>();
            for (int i = 0; i < EVENTS; i++)
                events.add(userev.register("many_" + i + " u32 x"));
            for (int i : new int[] { 0, 1234, EVENTS - 1 }) {
                eventually(events.get(i)::isOn);
                expect(events.get(i).begin().int32(i).end() == Outcome.WRITTEN);
                expect(tracer.fields().equals("{\"x\":" + i + "}"));
            }
            RefusedException e = refusalOf(() -> {
                for (int i = 0; i < 100; i++)
                    userev.register("one_more_" + i + " u32 x");
            });
            expect(e.reason() == RefusedException.Reason.QUOTA_EXCEEDED && e.getMessage().contains("MaxEvents"), e);
        }
    }

    private static void restarts(Userev userev) throws Exception {
        Event event = userev.register("r_restart u32 x");
        for (int i = 0; i < 3; i++) {
            try (Tracer tracer = Tracer.of("r_*")) {
                eventually(event::isOn);
                expect(event.begin().int32(i).end() == Outcome.WRITTEN && tracer.fields().equals("{\"x\":" + i + "}"));
                if (i == 0) {
                    killDaemon();
                    eventually(() -> event.begin().int32(-1).end() == Outcome.OFF && !event.isOn());
                }
            }
            if (i > 0) {
                eventually(() -> !event.isOn());
                killDaemon(); // the next one marks the page
            }
            startDaemon();
        }
        eventually(() -> userev.problem() == null);
    }

    /** A daemon that hangs delays nothing but calls that ask it, and these for two seconds. */
    private static void silence(Userev userev) throws Exception {
        Event event = userev.register("s_silent u32 x");
        try (Tracer tracer = Tracer.of("s_*")) {
            eventually(event::isOn);
            new ProcessBuilder("kill", "-STOP", "" + daemon.pid()).start().waitFor();
            Thread asking = new Thread(() -> {
                try {
                    userev.register("s_late u32 x");
                } catch (RefusedException e) {
                    throw new AssertionError(e);
                }
            });
            asking.start();
            long longest = 0;
            for (int i = 0; i < 100; i++) {
                long began = System.nanoTime();
                expect(event.isOn() && event.begin().int32(i).end() == Outcome.WRITTEN);
                longest = Math.max(longest, System.nanoTime() - began);
                Thread.sleep(1);
            }
            expect(asking.isAlive(), "it does not wait");
            asking.join();
            new ProcessBuilder("kill", "-CONT", "" + daemon.pid()).start().waitFor();
            expect(longest < 1_500_000_000L, longest);
            expect(tracer.fields().equals("{\"x\":0}"));
        }
    }

    private static void threads(Userev userev) throws Exception {
        Event event = userev.register("m_threads u32 thread; u32 n; __rel_loc char[] text");
        AtomicLong[] outcomes = new AtomicLong[Outcome.values().length];
        for (int i = 0; i < outcomes.length; i++)
            outcomes[i] = new AtomicLong();
        long lost = userev.lost().queueFull();
        try (Tracer tracer = Tracer.of("m_*")) {
            eventually(event::isOn);
            Thread[] threads = new Thread[16];
            for (int i = 0; i < threads.length; i++) {
                int number = i;
                threads[i] = new Thread(() -> {
                    for (int n = 0; n < 500; n++)
                        outcomes[event.begin().int32(number).int32(n).string("thread " + number).end().ordinal()].incrementAndGet();
                });
                threads[i].start();
            }
            for (Thread thread : threads)
                thread.join();
            for (long n = outcomes[Outcome.WRITTEN.ordinal()].get(); n > 0; n--) {
                String came = tracer.fields();
                expect(came.replaceAll("^.*\"thread\":(\\d+),.*\"thread (\\d+)\".*", "$1=$2").matches("(\\d+)=\\1"), came);
            }
        }
        long full = outcomes[Outcome.QUEUE_FULL.ordinal()].get();
        expect(outcomes[Outcome.WRITTEN.ordinal()].get() + full == 16 * 500, (Object[]) outcomes);
        expect(userev.lost().queueFull() == lost + full, userev.lost());
    }

    /** Threads test and write an event and its successors while these, and their connections, are closed. */
    private static void closing() throws Exception {
        Event[] current = { Event.off() };
        boolean[] isOver = { false };
        AtomicLong written = new AtomicLong();
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                for (Event event = Event.off(); !isOver[0]; event = current[0])
                    for (int n = 0; n < 50; n++)
                        if (event.isOn() && event.begin().int32(7).end() == Outcome.WRITTEN)
                            written.incrementAndGet();
            });
        }
        try (Tracer tracer = Tracer.of("c_*")) {
            for (Thread thread : threads)
                thread.start();
            for (int i = 0; i < 60; i++) {
                Userev userev = Userev.open(socket());
                for (int n = 0; n < 3; n++) {
                    Event former = current[0];
                    current[0] = userev.register("c_closing_" + (i + n) % 5 + " u32 x");
                    long before = written.get();
                    eventually(() -> written.get() > before + 2);
                    expect(current[0].isOn() && !former.isOn(), "a closed event is on");
                    if (n < 2)
                        current[0].close();
                }
                userev.close();
                if (i % 20 == 0)
                    System.gc();
            }
            isOver[0] = true;
            for (Thread thread : threads)
                thread.join();
            for (int i = 0; i < 100; i++)
                expect(tracer.fields().equals("{\"x\":7}"));
        }
    }

    private static long countOf(String file, String pattern) throws IOException {
        try (var lines = Files.lines(Path.of("/proc/self/" + file))) {
            return lines.filter(line -> line.contains(pattern)).count();
        }
    }

    /** More than the JVM's threads may need meanwhile. */
    private static final long ADDRESSES = 200 << 20;

    private static long addressSpace() {
        try (var lines = Files.lines(Path.of("/proc/self/status"))) {
            return 1024 * Long.parseLong(lines.filter(line -> line.startsWith("VmSize:")).findAny().get().replaceAll("\\D", ""));
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void nothingIsLeft() throws Exception {
        Runnable open = () -> {
            for (int i = 0; i < 100; i++) {
                try (Userev userev = Userev.open(socket())) {
                    userev.register("left_" + i + " u32 x");
                } catch (RefusedException e) {
                    throw new AssertionError(e);
                }
            }
        };
        long size = addressSpace();
        open.run();
        int fds = new File("/proc/self/fd").list().length;
        open.run();
        expect(new File("/proc/self/fd").list().length <= fds + 2, "open files");
        expect(countOf("maps", "memfd:") <= 3, "pages of the daemon");
        eventually(() -> {
            System.gc();
            Userev.open(socket()).close(); // unmaps those of earlier ones
            return addressSpace() < size + ADDRESSES;
        });
    }

    // Class loaders.

    /** A program's class, of that program's class loader. */
    public static final class Program {
        /** It never goes out of use by itself. */
        public static Object userev;
    }

    private static final List<WeakReference<ClassLoader>> loaders = new ArrayList<>();

    /** Why a class loader of its own does not get the library, or null; then it writes a record. */
    private static Object load(String temporary, byte[] library) throws Exception {
        Path jar = build.resolve("userev-" + System.getProperty("version") + ".jar");
        URL[] path = { jar.toUri().toURL(), Path.of(System.getProperty("java.class.path")).toUri().toURL() };
        String former = System.setProperty("java.io.tmpdir", temporary);
        try (URLClassLoader loader = new URLClassLoader(path, null) {
            @Override
            public InputStream getResourceAsStream(String name) {
                return library != null && name.contains("native") ? new ByteArrayInputStream(library) : super.getResourceAsStream(name);
            }

            @Override
            protected String findLibrary(String name) {
                throw new IllegalCallerException("as with --illegal-native-access=deny");
            }
        }) {
            loaders.add(new WeakReference<>(loader));
            Class<?> type = loader.loadClass("dev.userevd.userev.Userev");
            expect(type != Userev.class);
            Object userev = type.getMethod("open", String.class).invoke(null, socket());
            loader.loadClass("Checks$Program").getField("userev").set(null, userev);
            Object problem = type.getMethod("problem").invoke(userev);
            Object flags = java.lang.reflect.Array.newInstance(loader.loadClass("dev.userevd.userev.Flag"), 0);
            Object event = type.getMethod("register", String.class, flags.getClass()).invoke(userev, "l_loader u32 x", flags);
            while (problem == null && event.getClass().getMethod("isOn").invoke(event).equals(false))
                Thread.sleep(1);
            Object outcome = event.getClass().getMethod("write", byte[].class).invoke(event, new byte[4]);
            expect(outcome.toString().equals(problem == null ? "WRITTEN" : "OFF"), outcome);
            type.getMethod("close").invoke(userev);
            return problem;
        } finally {
            System.setProperty("java.io.tmpdir", former);
        }
    }

    private static void loadersAreCollected() {
        eventually(() -> {
            System.gc();
            return loaders.stream().allMatch(loader -> loader.get() == null);
        });
    }

    private static void loaderWithoutDaemon() throws Exception {
        Object problem = load(System.getProperty("java.io.tmpdir"), null);
        expect(problem.toString().contains("No such file"), problem);
        loadersAreCollected();
    }

    private static void classLoaders() throws Exception {
        try (Tracer tracer = Tracer.of("l_*")) {
            expect(load(System.getProperty("java.io.tmpdir"), null) == null, "a second class loader");
            expect(load("/proc", null) == null, "a directory where nothing can be written");
            expect(tracer.fields().equals(tracer.fields()));
        }
        Object problem = load("/proc", "no library".getBytes(StandardCharsets.UTF_8));
        expect(problem.toString().contains("java.io.tmpdir"), problem);
        long mapped = countOf("maps", "libuserev-jni");
        expect(mapped > 0 && mapped == countOf("maps", ".so (deleted)"), "files are left");
        loadersAreCollected();
    }

    private static void logging() throws Exception {
        try (Tracer tracer = Tracer.of("java_log")) {
            System.Logger logger = System.getLogger("a.logger");
            Object[] formatted = { 0 };
            Object counting = new Object() {
                @Override
                public String toString() {
                    formatted[0] = (int) formatted[0] + 1;
                    return "me";
                }
            };
            eventually(() -> logger.isLoggable(System.Logger.Level.TRACE));
            logger.log(System.Logger.Level.INFO, "hello {0}", counting);
            String came = tracer.fields();
            expect(came.equals("{\"level\":3,\"logger\":\"a.logger\",\"message\":\"hello me\",\"thrown\":\"\"}"), came);
            logger.log(System.Logger.Level.ERROR, "x".repeat(10_000), new IllegalStateException("why"));
            came = tracer.fields();
            expect(came.contains("\"level\":5") && came.contains("IllegalStateException: why"), came);
            tracer.process.destroy();
            eventually(() -> !logger.isLoggable(System.Logger.Level.ERROR));
            logger.log(System.Logger.Level.ERROR, "hello {0}", counting);
            expect(formatted[0].equals(1), formatted);
        }
    }

    private static void example() throws Exception {
        try (Tracer tracer = Tracer.of("shop_*")) {
            Shop.main(new String[0]);
            String came = "";
            for (int i = 0; i < 5; i++)
                came += tracer.fields();
            expect(came.contains("\"status\":404") && came.contains("\"path\":\"/\""), came);
        }
    }

    /** Runs all tests. $USEREV_SOCKET is DIRECTORY/socket. */
    public static void main(String[] arguments) throws Exception {
        build = Path.of(arguments[0]);
        directory = Path.of(arguments[1]);
        check("a class loader that has looked for a daemon is collected", Checks::loaderWithoutDaemon);
        check("without a daemon events are off, and none harms after its end", Checks::offWithoutDaemon);
        try (Userev userev = Userev.open(directory + "/nobody")) {
            Event event = userev.register("e u32 x");
            TypedEvent<Visit> typed = userev.declare("visit", Visit.class);
            check("without a daemon an event allocates nothing", () -> offAllocatesNothing(event, typed));
            printCost("Without a daemon", event);
        }
        startDaemon();
        try (Userev userev = Userev.open(socket())) {
            Event event = userev.register("off u32 x");
            TypedEvent<Visit> typed = userev.declare("off_visit", Visit.class);
            check("an event that is off allocates nothing", () -> offAllocatesNothing(event, typed));
            printCost("Off", event);
            check("records of all types are read as they were written", () -> recordsOfAllTypes(userev));
            check("refusals have a reason and a sentence", () -> refusals(userev));
            check("threads write at the same time", () -> threads(userev));
            check("the daemon is killed twice, and records come again", () -> restarts(userev));
            check("a daemon that hangs delays no record", () -> silence(userev));
        }
        check("events and connections are closed while threads use them", Checks::closing);
        check("nothing is left of closed connections", Checks::nothingIsLeft);
        check("class loaders that have written are collected, and directories without room for the library", Checks::classLoaders);
        check("messages of System.Logger", Checks::logging);
        check("the example", Checks::example);
        check("thousands of events, and a quota", Checks::thousandsOfEvents);
        daemon.destroy();
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
