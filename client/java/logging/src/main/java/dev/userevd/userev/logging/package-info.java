// SPDX-License-Identifier: LGPL-2.1-or-later

/** Messages of {@link java.lang.System.Logger} as trace events: see {@link dev.userevd.userev.logging.UserevLoggerFinder}. */
package dev.userevd.userev.logging;
