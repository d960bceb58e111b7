// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The name of a field, where it is not that of the record's component. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.RECORD_COMPONENT)
public @interface Name {
    /**
     * The name.
     *
     * @return the name
     */
    String value();
}
