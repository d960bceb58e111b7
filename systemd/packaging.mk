# SPDX-License-Identifier: GPL-2.0-or-later
#
# Installation, Debian packages, an image, and packages of other languages (client/languages.mk).

.PHONY: install uninstall deb packages image images

DEB_PACKAGES := $(BUILD_PACKAGES) debhelper dpkg-dev systemd
IMAGE_PACKAGES := $(DEB_PACKAGES) buildah util-linux
# Installed files, as mode:file:directory[:name]. uninstall removes the same files.
INSTALLED = 755:$(B)/userevd:$(SBINDIR) 755:$(B)/userevctl:$(BINDIR) 755:$(B)/userevd-keeper:$(LIBEXECDIR) 755:$(B)/libuserev.so.$(SOVERSION):$(LIBDIR) \
	644:$(B)/libuserev.a:$(LIBDIR) 644:client/userev.h:$(INCLUDEDIR) 644:client/userev_event.h:$(INCLUDEDIR) 644:client/userev_event_header.h:$(INCLUDEDIR) 644:$(B)/libuserev.pc:$(LIBDIR)/pkgconfig \
	$(foreach unit,$(UNITS) $(wildcard systemd/*.socket),644:$(unit):$(UNITDIR)) 644:systemd/80-userevd.preset:$(PRESETDIR) \
	644:systemd/sysusers/userevd.conf:$(SYSUSERSDIR) 644:$(B)/systemd/tmpfiles/userevd.conf:$(TMPFILESDIR) 644:$(B)/systemd/containers/cdi.json:$(DATADIR) 644:$(B)/systemd/containers/podman-hook.json:$(DOCDIR)/containers 644:client/userevctl/userevctl.1:$(MANDIR)/man1 \
	644:protocol/userevd-protocol.7:$(MANDIR)/man7 644:daemon/userevd.8:$(MANDIR)/man8 644:kernel/keeper/userevd-keeper.8:$(MANDIR)/man8 \
	644:daemon/policy/userevd.conf.5:$(MANDIR)/man5 \
	$(foreach file,$(wildcard systemd/policy.d-examples/*.conf),644:$(file):$(DOCDIR)/policy.d-examples)
# Each function has a page, even if several share a file.
names_of = $(shell sed -n '/^\.Sh SYNOPSIS/q; s/^\.Nm \([^ ]*\).*/\1/p' $(1))
INSTALLED += $(foreach page,$(wildcard client/*.3),$(foreach name,$(sort $(basename $(notdir $(page))) $(call names_of,$(page))),644:$(page):$(MANDIR)/man3:$(name).3))
INSTALLED += 644:client/userevctl/userevctl.bash-completion:$(COMPLETIONDIR):userevctl \
	644:systemd/userevd-containers.7:$(MANDIR)/man7 \
	$(foreach file,$(filter-out %.in,$(wildcard systemd/containers/*)),644:$(file):$(DOCDIR)/containers)
INSTALLED += 644:client/python/python-userev.3:$(MANDIR)/man3 \
	$(foreach file,$(wildcard client/python/userev/*.py),644:$(file):$(PYTHONDIR)/userev)
ifeq ($(HAS_GUARD),yes)
INSTALLED += 755:$(B)/userevd-guard:$(LIBEXECDIR) 644:kernel/guard/userevd-guard.8:$(MANDIR)/man8
endif
INSTALLED += $(foreach file,$(wildcard systemd/monitoring/*),644:$(file):$(DOCDIR)/monitoring)
# Directories of this package alone.
INSTALLED_DIRECTORIES = $(PYTHONDIR)/userev $(DOCDIR)/monitoring $(DOCDIR)/containers $(DOCDIR)/policy.d-examples $(DOCDIR) $(DATADIR) $(LIBEXECDIR)

# --- files that name installed ones ---

# Made each time, since PREFIX may have changed. The second is for programs that use this build without installing it; pkg-config prefers it.
$(B)/libuserev.pc: PATHS = $(PREFIX) $(LIBDIR) $(INCLUDEDIR)
$(B)/libuserev-uninstalled.pc: PATHS = $(CURDIR) $(abspath $(B)) $(CURDIR)/client
$(B)/libuserev.pc $(B)/libuserev-uninstalled.pc: client/libuserev.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(word 1,$(PATHS))|g' -e 's|@LIBDIR@|$(word 2,$(PATHS))|g' -e 's|@INCLUDEDIR@|$(word 3,$(PATHS))|g' \
		-e 's|@VERSION@|$(VERSION)|g' $< > $@

# From version 253 on systemd itself has the daemon reload and waits for the end.
RELOADS_BY_NOTIFY ?= $(if $(SYSTEMD_IS_253),yes,no)
SYSTEMD_IS_253 = $(shell pkg-config --atleast-version=253 libsystemd && echo yes)

$(B)/systemd/%.service: systemd/%.service.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@SBINDIR@|$(SBINDIR)|g' -e 's|@LIBEXECDIR@|$(LIBEXECDIR)|g' \
		$(if $(filter yes,$(RELOADS_BY_NOTIFY)),-e 's|@NOTIFY@|notify-reload|' -e '/@EXEC_RELOAD@/d', \
		-e 's|@NOTIFY@|notify|' -e 's|@EXEC_RELOAD@|ExecReload=$(BINDIR)/userevctl reload|') $< > $@

$(TEMPLATES): $(B)/%: %.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@DATADIR@|$(DATADIR)|g' $< >$@

# --- targets ---

## make install         Install below PREFIX=$(PREFIX), with DESTDIR= in front. make uninstall removes the same files.
install: build
	$(Q)for entry in $(INSTALLED); do \
		IFS=:; set -- $$entry; \
		install -D -m $$1 "$$2" "$(DESTDIR)$$3/$${4:-$${2##*/}}" || exit 1; \
	done
	$(Q)ln -sf libuserev.so.$(SOVERSION) "$(DESTDIR)$(LIBDIR)/libuserev.so"

uninstall:
	$(Q)for entry in $(INSTALLED); do \
		IFS=:; set -- $$entry; \
		rm -f "$(DESTDIR)$$3/$${4:-$${2##*/}}"; \
	done
	$(Q)rm -f "$(DESTDIR)$(LIBDIR)/libuserev.so"
	$(Q)rm -rf "$(DESTDIR)$(PYTHONDIR)/userev/__pycache__"
	$(Q)for directory in $(INSTALLED_DIRECTORIES); do \
		[ ! -d "$(DESTDIR)$$directory" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$directory"; \
	done

# Debian packages, from a copy of their sources, built again when a source has changed. They name their maintainer, who receives reports
# (SECURITY.md): from the variables of Debian's tools, otherwise from Git, otherwise root of this machine.
MAINTAINER ?= $(if $(and $(DEBFULLNAME),$(DEBEMAIL)),$(DEBFULLNAME) <$(DEBEMAIL)>,$(or $(shell \
	git config user.email >/dev/null 2>&1 && echo "$$(git config user.name) <$$(git config user.email)>"),root <root@$(shell hostname -f)>))
DEB_SOURCES := LICENSE Makefile README.md client daemon kernel protocol systemd
DEB_TREE = $(B)/deb/userevd-$(VERSION)

## make deb             Debian packages below $(B)/deb/. MAINTAINER="Name <address>" receives reports of bugs in them.
deb:
	$(call install_packages,$(DEB_PACKAGES))
	$(Q)$(BUILD) packages

packages: $(B)/deb/$(VERSION).stamp

# With a clean environment: variables of this make do not belong in a package.
$(B)/deb/$(VERSION).stamp: $(shell find $(DEB_SOURCES) -type f)
	@echo '  DEB     $(B)/deb'
	$(Q)rm -rf $(DEB_TREE) $@ && mkdir -p $(DEB_TREE)
	$(Q)cp -r $(DEB_SOURCES) $(DEB_TREE)
	$(Q)mv $(DEB_TREE)/systemd/debian $(DEB_TREE)/debian
	$(Q)for file in changelog control; do \
		sed 's|@VERSION@|$(VERSION)|; s|@MAINTAINER@|$(MAINTAINER)|' $(DEB_TREE)/debian/$$file.in >$(DEB_TREE)/debian/$$file; done
	$(Q)cd $(DEB_TREE) && env -i PATH="$(if $(filter ccache,$(CC)),/usr/lib/ccache:)$$PATH" $(if $(CCACHE_DIR),CCACHE_DIR=$(CCACHE_DIR) CCACHE_NOHASHDIR=1) \
		LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS='parallel=$(JOBS) noautodbgsym' \
		dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1 || { tail -40 ../build.log; exit 1; }
	$(Q)rm -rf $(DEB_TREE)
	$(Q)touch $@

# The repository that nodes pull the image from, and for its labels the commit, and the URL of the sources if there is one.
IMAGE ?= registry.example.org/userevd
IMAGE_REVISION = $(shell git rev-parse HEAD 2>/dev/null)
IMAGE_SOURCE ?= $(shell git config remote.origin.url 2>/dev/null | sed -n 's|^https://\([^/@]*@\)\?|https://|p')

## make image           OCI image of the Debian package below $(B)/image/, with the manifests for it. IMAGE=registry/name.
image:
	$(call install_packages,$(IMAGE_PACKAGES))
	$(Q)$(BUILD) images

images: packages
	@echo '  IMAGE   $(B)/image'
	$(Q)systemd/image.sh $(B)/deb/userevd_$(VERSION)_*.deb $(B)/image $(IMAGE) '$(IMAGE_REVISION)' $(IMAGE_SOURCE)
	$(Q)cp $(addprefix systemd/containers/,kubernetes-daemonset.yaml 30-kubernetes.conf) $(B)/image
	$(Q)sed -e 's|newName: .*|newName: $(IMAGE)|' -e 's|newTag: .*|newTag: $(VERSION)|' systemd/containers/kustomization.yaml >$(B)/image/kustomization.yaml

include client/languages.mk
