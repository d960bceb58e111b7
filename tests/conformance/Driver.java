// SPDX-License-Identifier: GPL-2.0-or-later

import dev.userevd.userev.Event;
import dev.userevd.userev.Outcome;
import dev.userevd.userev.RefusedException;
import dev.userevd.userev.Userev;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigInteger;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The driver of the client for Java: see README. */
final class Driver {
    /** What the values do not fit. */
    private static final class Wrong extends Exception {
        private static final long serialVersionUID = 1;

        Wrong(String sentence) {
            super(sentence);
        }
    }

    /** Location is __rel_loc, __data_loc or none; count is that of a fixed array, 0 for a number. */
    private record Field(String location, String type, int count, String name) {
        private static final Pattern FORM =
            Pattern.compile("(?:(__rel_loc|__data_loc) )?((?:unsigned )?[a-z0-9]+)(?:\\[(\\d*)])? (\\w+)|struct \\w+ (\\w+) (\\d+)");

        static Field of(String text) {
            Matcher form = FORM.matcher(text.strip().replaceAll("\\s+", " "));
            if (!form.matches())
                return null;
            if (form.group(5) != null)
                return new Field("", "struct", Integer.parseInt(form.group(6)), form.group(5));
            String size = form.group(3) == null || form.group(3).isEmpty() ? "0" : form.group(3);
            return new Field(form.group(1) == null ? "" : form.group(1), form.group(2), Integer.parseInt(size), form.group(4));
        }

        boolean isText() {
            return type.endsWith("char");
        }

        byte[] number(String text) throws Wrong {
            String base = type.replace("unsigned ", "");
            int bytes = switch (base) {
                case "char" -> 1;
                case "short" -> 2;
                case "int" -> 4;
                default -> Integer.parseInt(base.substring(1)) / 8;
            };
            BigInteger value = new BigInteger(text), end = BigInteger.ONE.shiftLeft(8 * bytes), low = BigInteger.ZERO;
            if (base.equals(type) && !type.startsWith("u")) {
                end = end.shiftRight(1);
                low = end.negate();
            }
            if (value.compareTo(low) < 0 || value.compareTo(end) >= 0)
                throw new Wrong(text + " is outside of " + name);
            byte[] out = new byte[bytes];
            boolean isLittle = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;
            for (int i = 0; i < bytes; i++)
                out[isLittle ? i : bytes - 1 - i] = value.shiftRight(8 * i).byteValue();
            return out;
        }

        byte[] bytes(String value) throws Wrong {
            Charset bytes = StandardCharsets.ISO_8859_1;
            if (value.startsWith("\""))
                return URLDecoder.decode(value.substring(1).replace("+", "%2b"), bytes).getBytes(bytes);
            if (value.startsWith("#"))
                return HexFormat.of().parseHex(value.substring(1));
            ByteBuffer out = ByteBuffer.allocate(8 * value.length());
            for (String one : value.split("[\\[\\],]"))
                if (!one.isEmpty())
                    out.put(number(one));
            return Arrays.copyOf(out.array(), out.position());
        }
    }

    private record Driven(Event event, List<Field> fields) {}

    private record Dynamic(int at, Field field, byte[] data) {}

    private final Map<String, Userev> connections = new HashMap<>();
    private final Map<Userev, Map<String, Driven>> events = new HashMap<>();
    private Userev current;

    private static byte[] build(List<Field> fields, Map<String, String> values) throws Wrong {
        ByteBuffer out = ByteBuffer.allocate(1 << 20).order(ByteOrder.nativeOrder());
        List<Dynamic> later = new ArrayList<>();
        for (Field field : fields) {
            String value = values.remove(field.name);
            if (value == null)
                throw new Wrong(field.name + " has no value");
            byte[] data = field.bytes(value);
            if (!field.location.isEmpty()) {
                later.add(new Dynamic(out.position(), field, data));
                out.putInt(0);
                continue;
            }
            if (field.type.equals("struct") ? data.length != field.count : field.count > 0 && data.length > field.count)
                throw new Wrong(field.name + " takes " + field.count + " bytes");
            out.put(data).put(new byte[Math.max(field.count - data.length, 0)]);
        }
        if (!values.isEmpty())
            throw new Wrong(values.keySet() + " is not a field");
        for (Dynamic one : later) {
            int offset = one.field.location.equals("__data_loc") ? out.position() + 8 : out.position() - one.at - 4;
            int size = one.data.length + (one.field.isText() ? 1 : 0);
            out.putInt(one.at, size << 16 | offset & 0xffff).put(one.data).put(new byte[size - one.data.length]);
        }
        return Arrays.copyOf(out.array(), out.position());
    }

    private String use(String number) {
        current = connections.computeIfAbsent(number, key -> Userev.open());
        events.putIfAbsent(current, new HashMap<>());
        return "ok";
    }

    private String register(String description) {
        String[] parts = description.strip().split(" ", 2);
        List<Field> fields = new ArrayList<>();
        for (String part : parts.length < 2 ? new String[0] : parts[1].split(";")) {
            Field field = Field.of(part);
            if (field != null)
                fields.add(field);
        }
        try {
            events.get(current).putIfAbsent(parts[0].split(":")[0], new Driven(current.register(description), fields));
            return "ok";
        } catch (RefusedException e) {
            return "refused " + e.getMessage();
        }
    }

    private static String await(Event event, String wanted) throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (event.isOn() != wanted.equals("yes") && System.nanoTime() - end < 0)
            Thread.sleep(5);
        return event.isOn() ? "yes" : "no";
    }

    private static String measure(Event event, int turns) {
        long begin = System.nanoTime();
        for (int turn = 0; turn < turns; turn++)
            if (event.isOn())
                event.begin().int32(404).int64(turn).string("/favicon.ico").end();
        return Long.toString(System.nanoTime() - begin);
    }

    private static String write(Driven driven, String[] words) {
        Map<String, String> values = new HashMap<>();
        for (int i = 2; i < words.length; i++)
            values.put(words[i].split("=", 2)[0], words[i].split("=", 2)[1]);
        try {
            Outcome outcome = driven.event.write(build(driven.fields, values));
            return switch (outcome) {
                case WRITTEN -> "written";
                case OFF -> "off";
                default -> "lost " + outcome;
            };
        } catch (Wrong e) {
            return "wrong " + e.getMessage();
        }
    }

    private String release(String name) {
        events.get(current).remove(name).event.close();
        return "ok";
    }

    private String obey(String[] words) throws InterruptedException {
        switch (words[0]) {
            case "can":
                return "hold answer connections";
            case "use":
                return use(words[1]);
            case "register":
                return register(words.length > 1 ? words[1] : "");
            default:
        }
        Driven driven = events.get(current).get(words[1]);
        if (driven == null)
            return "error: there is no event " + words[1];
        return switch (words[0]) {
            case "await" -> await(driven.event, words[2]);
            case "write" -> write(driven, words);
            case "measure" -> measure(driven.event, Integer.parseInt(words[2]));
            case "release" -> release(words[1]);
            default -> "error";
        };
    }

    /** Reads commands until stdin ends. */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        Driver driver = new Driver();
        driver.use("0");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null;)
            System.out.println(driver.obey(line.split("\t")));
        driver.connections.values().forEach(Userev::close);
    }
}
