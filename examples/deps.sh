#!/usr/bin/env bash
# Installs the Debian packages that building, the demo and the tests need and that are missing.
# Says which; uses sudo unless it runs as root; does nothing (and needs no rights) if all are there.
set -eu

packages=(
    gcc libc6-dev make pkg-config                     # build
    libpq-dev libevent-dev libcurl4-openssl-dev libyaml-dev libssl-dev
    postgresql postgresql-client                      # the store
    tzdata                                            # the zones of timestamp() and schedules
    curl python3 git procps util-linux                # the demo
)
# What only the tests need: deps.sh check
[ "${1:-}" = check ] && packages+=(libcmocka-dev binutils openssl groff-base jq libfaketime)

missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
# The test of the editors' schema drives a language server from npm; a node that is there is kept.
if [ "${1:-}" = check ] && ! command -v npm >/dev/null; then missing+=(npm); fi
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "these Debian packages are missing: ${missing[*]}" >&2
        echo "install them as root, or install sudo, and try again" >&2
        exit 1
    }
    as_root=(sudo)
fi
echo "installing missing Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# The packaged cluster is not used: the engine starts a private one.
"${as_root[@]}" mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] ||
    echo 'create_main_cluster = false' | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "installed: ${missing[*]}"
