// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev.logging;

import dev.userevd.userev.Event;
import dev.userevd.userev.RefusedException;
import dev.userevd.userev.Userev;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.text.MessageFormat;
import java.util.MissingResourceException;
import java.util.ResourceBundle;

/**
 * Makes a trace event, {@code java_log}, of all messages of {@link java.lang.System.Logger}. The JDK uses it where its jar is on the class
 * path or the module path; messages go nowhere else then, in particular not to java.util.logging.
 *
 * <p>The fields are {@code u8 level} (1 trace, 2 debug, 3 info, 4 warning, 5 error) and the texts {@code logger}, {@code message} and
 * {@code thrown}, a stack trace. Messages are formatted only while the event is on; long ones are shortened.
 */
public final class UserevLoggerFinder extends System.LoggerFinder {
    private static final String DESCRIPTION =
        "java_log u8 level; __rel_loc char[] logger; __rel_loc char[] message; __rel_loc char[] thrown";

    // Together they fit into a record.
    private static final int NAME_MAX = 200;
    private static final int MESSAGE_MAX = 1800;
    private static final int THROWN_MAX = 1800;

    private final Event event;

    /** For the JDK, which creates one. */
    public UserevLoggerFinder() {
        Event registered;
        try {
            registered = Userev.open().register(DESCRIPTION);
        } catch (RefusedException e) {
            registered = Event.off();
        }
        event = registered;
    }

    @Override
    public System.Logger getLogger(String name, Module module) {
        return new Logger(name, event);
    }

    private record Logger(String name, Event event) implements System.Logger {
        @Override
        public String getName() {
            return name;
        }

        @Override
        public boolean isLoggable(Level level) {
            return event.isOn() && level != Level.OFF;
        }

        @Override
        public void log(Level level, ResourceBundle bundle, String message, Throwable thrown) {
            if (!isLoggable(level))
                return;
            StringWriter trace = new StringWriter();
            if (thrown != null)
                thrown.printStackTrace(new PrintWriter(trace, true));
            emit(level, localized(bundle, message), trace.toString());
        }

        @Override
        public void log(Level level, ResourceBundle bundle, String format, Object... parameters) {
            if (isLoggable(level))
                emit(level, formatted(localized(bundle, format), parameters), "");
        }

        private void emit(Level level, String message, String thrown) {
            event.begin().int8(level.ordinal()).string(name, NAME_MAX).string(message, MESSAGE_MAX).string(thrown, THROWN_MAX).end();
        }

        private static String localized(ResourceBundle bundle, String message) {
            try {
                return bundle == null || message == null ? message : bundle.getString(message);
            } catch (MissingResourceException | ClassCastException e) {
                return message;
            }
        }

        private static String formatted(String format, Object[] parameters) {
            try {
                return format == null || parameters == null || parameters.length == 0 ? format : MessageFormat.format(format, parameters);
            } catch (RuntimeException e) { // of the format, or of a parameter
                return format;
            }
        }
    }
}
