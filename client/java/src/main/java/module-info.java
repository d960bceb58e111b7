// SPDX-License-Identifier: LGPL-2.1-or-later

/** Trace events through userevd, for programs without privilege. */
module dev.userevd.userev {
    exports dev.userevd.userev;
}
