// SPDX-License-Identifier: LGPL-2.1-or-later
package dev.userevd.userev;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Tracers show this component of a record without a sign: a {@code long} is a {@code u64} instead of an {@code s64}. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.RECORD_COMPONENT)
public @interface Unsigned {}
