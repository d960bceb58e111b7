// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.RecordComponent;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.function.Supplier;

/**
 * An event whose fields are the components of a record:
 *
 * <pre>{@code
 * record Request(@Unsigned int status, @Unsigned long ns, String path) {}
 *
 * TypedEvent<Request> requests = userev.declare("shop_request", Request.class);
 * requests.emit(() -> new Request(404, 4000, "/favicon.ico"));
 * }</pre>
 *
 * <p>A component is a number, a boolean, a String or a byte[]. The field of {@code payloadSize} is {@code payload_size}, if {@link Name}
 * does not give it another name; floats have _f32 or _f64 added. A named module opens the record's package to dev.userevd.userev.
 *
 * @param <R> the record's type
 */
public final class TypedEvent<R extends Record> {
    private static final TypedEvent<Record> OFF = new TypedEvent<>(Event.off(), new Field[0]);

    private enum Kind { U8, S8, U16, S16, U32, S32, U64, S64, FLOAT, DOUBLE, STRING, BYTES }

    private record Field(Kind kind, MethodHandle get) {
        void add(RecordBuilder to, Record from) throws Throwable {
            switch (kind) {
                case U8, S8 -> to.int8((int) (long) get.invokeExact(from));
                case U16, S16 -> to.int16((int) (long) get.invokeExact(from));
                case U32, S32 -> to.int32((int) (long) get.invokeExact(from));
                case U64, S64 -> to.int64((long) get.invokeExact(from));
                case FLOAT -> to.float32((float) get.invokeExact(from));
                case DOUBLE -> to.float64((double) get.invokeExact(from));
                case STRING -> to.string((String) get.invokeExact(from));
                case BYTES -> to.bytes((byte[]) get.invokeExact(from));
            }
        }
    }

    private final Event event;
    private final Field[] fields;

    private TypedEvent(Event event, Field[] fields) {
        this.event = event;
        this.fields = fields;
    }

    /**
     * Returns an event that is always off, in place of one that was refused.
     *
     * @param <R> the record's type
     * @return the event
     */
    @SuppressWarnings("unchecked") // it reads no record
    public static <R extends Record> TypedEvent<R> off() {
        return (TypedEvent<R>) OFF;
    }

    static <R extends Record> TypedEvent<R> declare(Userev userev, String name, Class<R> type, Flag... flags) throws RefusedException {
        RecordComponent[] components = type.getRecordComponents();
        Field[] fields = new Field[components.length];
        StringJoiner description = new StringJoiner("; ", name + " ", "").setEmptyValue(name);
        for (int i = 0; i < components.length; i++) {
            Kind kind = kindOf(components[i]);
            fields[i] = new Field(kind, accessor(type, components[i], kind));
            description.add(describe(kind, components[i]));
        }
        return new TypedEvent<>(userev.register(description.toString(), flags), fields);
    }

    private static Kind kindOf(RecordComponent component) throws RefusedException {
        Class<?> type = component.getType();
        boolean isUnsigned = component.isAnnotationPresent(Unsigned.class);
        if (type == boolean.class)
            return Kind.U8;
        if (type == byte.class)
            return isUnsigned ? Kind.U8 : Kind.S8;
        if (type == short.class)
            return isUnsigned ? Kind.U16 : Kind.S16;
        if (type == int.class)
            return isUnsigned ? Kind.U32 : Kind.S32;
        if (type == long.class)
            return isUnsigned ? Kind.U64 : Kind.S64;
        if (type == float.class)
            return Kind.FLOAT;
        if (type == double.class)
            return Kind.DOUBLE;
        if (type == String.class)
            return Kind.STRING;
        if (type == byte[].class)
            return Kind.BYTES;
        throw refuse(component.getDeclaringRecord(), "the type of its component " + component.getName() + " is no field's: "
            + "use byte, short, int, long, float, double, boolean, String or byte[]");
    }

    private static RefusedException refuse(Class<?> type, String why) {
        return new RefusedException(RefusedException.Reason.BAD_DESCRIPTION, type.getName() + ": " + why);
    }

    private static MethodHandle accessor(Class<?> type, RecordComponent component, Kind kind) throws RefusedException {
        // Integers and booleans become a long; other types stay.
        MethodType as = MethodType.methodType(kind.compareTo(Kind.FLOAT) < 0 ? long.class : component.getType(), Record.class);
        try {
            if (component.getAccessor().trySetAccessible())
                return MethodHandles.explicitCastArguments(MethodHandles.lookup().unreflect(component.getAccessor()), as);
        } catch (IllegalAccessException e) {
            // as if it could not be made accessible
        }
        throw refuse(type, "its module has to open the package " + type.getPackageName() + " to dev.userevd.userev");
    }

    private static String describe(Kind kind, RecordComponent component) {
        Name named = component.getAnnotation(Name.class);
        String name = named != null ? named.value() : component.getName().replaceAll("(?<=[^A-Z])(?=[A-Z])", "_").toLowerCase(Locale.ROOT);
        return switch (kind) {
            case FLOAT -> "u32 " + (name.endsWith("_f32") ? name : name + "_f32");
            case DOUBLE -> "u64 " + (name.endsWith("_f64") ? name : name + "_f64");
            case STRING -> "__rel_loc char[] " + name;
            case BYTES -> "__rel_loc u8[] " + name;
            default -> kind.name().toLowerCase(Locale.ROOT) + " " + name;
        };
    }

    /**
     * Returns whether a tracer has enabled the event: see {@link Event#isOn}.
     *
     * @return whether the event is on
     */
    public boolean isOn() {
        return event.isOn();
    }

    /**
     * Returns the event itself, to close it or to ask for its name.
     *
     * @return the event
     */
    public Event event() {
        return event;
    }

    /**
     * Writes a record if the event is on. To create the record for an event that is off costs time: test {@link #isOn} before it.
     *
     * @param record the fields
     * @return what became of it; FAILED also if a component's accessor throws an exception
     */
    public Outcome emit(R record) {
        RecordBuilder builder = event.begin();
        if (builder.isOff())
            return Outcome.OFF;
        try {
            for (Field field : fields)
                field.add(builder, record);
        } catch (Throwable e) {
            builder.giveBack();
            if (e instanceof Error error)
                throw error;
            return Outcome.FAILED;
        }
        return builder.end();
    }

    /**
     * Creates and writes a record if the event is on.
     *
     * @param record creates it
     * @return what became of it; FAILED also if this throws an exception: a tracer must not change what the program does
     */
    public Outcome emit(Supplier<R> record) {
        if (!isOn())
            return Outcome.OFF;
        R created;
        try {
            created = record.get();
        } catch (Exception e) {
            return Outcome.FAILED;
        }
        return emit(created);
    }
}
