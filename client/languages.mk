# SPDX-License-Identifier: GPL-2.0-or-later
#
# Clients for other languages, as their own packages.

# --- Rust ---

RUST_PACKAGES := cargo rust-clippy rustc rustfmt
# Cargo of Debian, also where another one is first in PATH.
CARGO = cd client/rust && RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc CARGO_HOME=$(abspath $(B)/rust/home) CARGO_TARGET_DIR=$(abspath $(B)/rust) \
	/usr/bin/cargo --offline

.PHONY: crate
## make crate           The client for Rust, a crate below $(B)/.
crate:
	$(call install_packages,cargo rustc)
	$(Q)$(CARGO) package --quiet --allow-dirty
	$(Q)cp $(B)/rust/package/userev-*.crate $(B)/

# --- Java: two jars, one of them with the native library, so that users need no compiler ---

JAVA_PACKAGES := openjdk-17-jdk-headless
JAVA_HOME ?= $(patsubst %/bin/javac,%,$(realpath $(shell command -v javac)))
JAVAC = $(JAVA_HOME)/bin/javac -Xlint:all -Werror --release 17
# The machine's name in Java.
JAVA_MACHINE = $(patsubst powerpc64le,ppc64le,$(patsubst x86_64,amd64,$(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))))

JAR := $(B)/userev-$(VERSION).jar
LOGGING_JAR := $(B)/userev-logging-$(VERSION).jar

.PHONY: jar
## make jar             The client for Java, two jars below $(B)/.
jar:
	$(call install_packages,$(BUILD_PACKAGES) $(JAVA_PACKAGES))
	$(Q)$(BUILD) $(JAR) $(LOGGING_JAR)

$(B)/client/java/%.o: EXTRA_CFLAGS = -isystem $(JAVA_HOME)/include -isystem $(JAVA_HOME)/include/linux

# Never unloaded: the C library calls it back at a fork. It uses internal functions of libuserev, and exports none.
$(B)/java/libuserev-jni.so: $(B)/client/java/src/main/c/userev_jni.o $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) client/java/src/main/c/userev_jni.map
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -s -Wl,-z,nodelete -Wl,-z,defs \
		-Wl,--version-script=client/java/src/main/c/userev_jni.map $(filter %.o,$^) -o $@ -pthread

# The same bytes from the same sources: names in order, and one date. $(1) is a folder of classes, $(2) its project.
define make_jar
	$(Q)mkdir -p $(1)/META-INF/maven/dev.userevd/$(2)
	$(Q)sed 's|@VERSION@|$(VERSION)|' $< >$(1)/META-INF/maven/dev.userevd/$(2)/pom.xml
	$(Q)printf 'groupId=dev.userevd\nartifactId=$(2)\nversion=$(VERSION)\n' >$(1)/META-INF/maven/dev.userevd/$(2)/pom.properties
	$(Q)cd $(1) && $(JAVA_HOME)/bin/jar --create --file=$(abspath $@) --module-version=$(VERSION) --date=2026-01-01T00:00:00Z \
		$$(find * -type f | LC_ALL=C sort)
endef

$(JAR): client/java/pom.xml $(wildcard client/java/src/main/java/*.java client/java/src/main/java/dev/userevd/userev/*.java) $(B)/java/libuserev-jni.so
	@echo '  JAVA    $@'
	$(Q)rm -rf $(B)/java/userev $@ && $(JAVAC) -d $(B)/java/userev $(filter %.java,$^)
	$(Q)install -m 644 -D -t $(B)/java/userev/META-INF/native/linux-$(JAVA_MACHINE) $(B)/java/libuserev-jni.so
	$(call make_jar,$(B)/java/userev,userev)

LOGGER_FINDER := dev/userevd/userev/logging/UserevLoggerFinder
$(LOGGING_JAR): client/java/logging/pom.xml client/java/logging/src/main/java/module-info.java client/java/logging/src/main/java/$(LOGGER_FINDER).java $(JAR)
	@echo '  JAVA    $@'
	$(Q)rm -rf $(B)/java/logging $@ && $(JAVAC) -p $(JAR) -d $(B)/java/logging $(filter %.java,$^)
	$(Q)mkdir -p $(B)/java/logging/META-INF/services
	$(Q)echo $(subst /,.,$(LOGGER_FINDER)) >'$(B)/java/logging/META-INF/services/java.lang.System$$LoggerFinder'
	$(call make_jar,$(B)/java/logging,userev-logging)

# --- Node: a package for npm, laid out by hand, since Debian's npm is large ---

NODE_PACKAGES := nodejs $(if $(wildcard /usr/include/node/node_api.h),,libnode-dev)
NODE_PACKAGE := $(B)/userev-$(VERSION).tgz

.PHONY: npm
## make npm             The client for Node, a package below $(B)/, for this machine's architecture.
npm:
	$(call install_packages,$(BUILD_PACKAGES) $(NODE_PACKAGES))
	$(Q)$(BUILD) $(NODE_PACKAGE)

NODE_FILES := $(addprefix client/node/,README.md index.d.ts index.js index.mjs link.js package.json record.js examples/http.js) LICENSE
$(B)/client/node/userev_napi.o: EXTRA_CFLAGS = -DNAPI_VERSION=8 -isystem /usr/include/node
# Never unloaded: the C library calls it back at a fork. It uses internal functions of libuserev, and exports none.
$(B)/node/userev.node: $(B)/client/node/userev_napi.o $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) client/node/userev_napi.map
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,--version-script=client/node/userev_napi.map $(filter %.o,$^) -o $@

$(B)/node/package/package.json: $(NODE_FILES) $(B)/node/userev.node
	$(Q)rm -rf $(@D) && mkdir -p $(@D)/examples $(@D)/prebuilds $(B)/node/modules
	$(Q)ln -sfn ../package $(B)/node/modules/userev
	$(Q)cp $(filter-out %/http.js,$(NODE_FILES)) $(@D)
	$(Q)cp $(filter %/http.js,$(NODE_FILES)) $(@D)/examples
	$(Q)platform=$$(node -p '`$${process.platform}-$${process.arch}`') && mkdir $(@D)/prebuilds/$$platform && \
		$(call tool,objcopy) --strip-debug $(B)/node/userev.node $(@D)/prebuilds/$$platform/userev.node

$(NODE_PACKAGE): $(B)/node/package/package.json
	$(Q)tar -C $(B)/node --sort=name --owner=0 --group=0 --numeric-owner -czf $@ package
