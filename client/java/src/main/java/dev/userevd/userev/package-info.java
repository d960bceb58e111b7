// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * Trace events through userevd, for programs without privilege. An event that is off costs two loads and a branch; a record of one that
 * is on is one system call.
 *
 * <pre>{@code
 * record Request(@Unsigned int status, @Unsigned long ns, String path) {}
 *
 * Userev userev = Userev.open();
 * TypedEvent<Request> requests = userev.declare("shop_request", Request.class);
 *
 * if (requests.isOn())
 *     requests.emit(new Request(404, 4000, "/favicon.ico"));
 * }</pre>
 *
 * <p>The program runs the same without a daemon, or without the native library: its events are off. Once a daemon starts, or after a
 * restart of the daemon, they work by themselves.
 *
 * <p>All classes may be used by several threads, virtual ones included, except {@link dev.userevd.userev.RecordBuilder}. Nothing
 * here throws an exception while records are written: see {@link dev.userevd.userev.Outcome}.
 */
package dev.userevd.userev;
