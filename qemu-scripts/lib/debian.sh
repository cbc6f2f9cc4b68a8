# shellcheck shell=bash
# Debian's packages: those of the system, and single ones from a component or a
# suite that the system does not have enabled. Sourced by setup.

is_debian() {
    have apt-get && have dpkg && [ -r /etc/os-release ] || return 1
    [ "$(os_release ID)" = debian ]
}

os_release() { (. /etc/os-release && eval "printf '%s' \"\${$1:-}\""); }

# Whether package $1 is installed here.
is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs packages of the enabled sources. The lists are renewed first where they
# do not know a package.
install_packages() {
    say "installing $*"
    if ! apt-cache show --no-all-versions "$@" >/dev/null 2>&1; then
        apt-get -q update || say "apt-get update was not wholly successful; going on"
    fi
    # Where it fails, the lists were too old for the mirror, as a rule.
    apt_install "$@" || { apt-get -q update && apt_install "$@"; }
}

# apt-get install, without questions, without what is merely recommended, and without
# any daemon being started, now or at boot: the maintainer scripts find harmless programs
# before the real ones.
apt_install() {
    local shim program
    shim=$(temporary_folder)
    for program in invoke-rc.d deb-systemd-invoke deb-systemd-helper; do
        printf '#!/bin/sh\nexit 0\n' >"$shim/$program"
    done
    cat >"$shim/update-rc.d" <<'SHIM'
#!/bin/sh
if [ "$2" = defaults ]; then set -- "$1" defaults-disabled; fi
exec /usr/sbin/update-rc.d "$@"
SHIM
    chmod 755 "$shim" "$shim"/*
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o "DPkg::Path=$shim:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

# The mirrors that the machine takes Debian itself from: lines "URI SUITE".
debian_mirrors() {
    local codename
    codename=$(os_release VERSION_CODENAME)
    # shellcheck disable=SC2016 # apt-get's own variables
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v codename="$codename" '
            $3 == "main" && ($2 == codename || $2 == "stable" || $2 == "oldstable") &&
                !seen[$1]++ { print $1, $2 }'
}

# An apt-get that sees only the sources in $CACHE/apt/$1, and keeps all it knows
# there.
private_apt() {
    local folder=$CACHE/apt/$1
    shift
    "$1" -c "$folder/apt.conf" "${@:2}"
}

# Readies private_apt $1 for component $4 of the suites $3 at the mirror $2.
make_private_apt() {
    local folder=$CACHE/apt/$1 keyring suite option=
    for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        if [ -r "$keyring" ]; then
            option="[signed-by=$keyring] "
            break
        fi
    done
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/parts"
    for suite in $3; do
        printf 'deb %s%s %s %s\n' "$option" "$2" "$suite" "$4"
    done >"$folder/sources.list"
    cat >"$folder/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::SourceList "$folder/sources.list";
Dir::Etc::SourceParts "$folder/parts";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "$folder/parts";
Dir::State::Lists "$folder/lists";
Dir::Cache "$folder/cache";
Dir::Cache::archives "$folder/cache/archives";
APT::Sandbox::User "root";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
CONF
}

# Prints the newest version of package $2 that private_apt $1 offers and that
# begins with $3.
offered_version() {
    private_apt "$1" apt-cache madison "$2" 2>/dev/null |
        awk -F '|' -v want="$3" '{ gsub(/ /, "", $2) } index($2, want) == 1 { print $2; exit }'
}

# Downloads package $1, version beginning with $2, from component $3 of suite $4
# ("" for the machine's own suite) into the cache, and prints the file's name. What
# is in the cache is not downloaded again.
download_package() {
    local package=$1 version=$2 component=$3 suite=$4 uri own name found file folder
    file=$(find "$CACHE/debs" -name "${package}_${version//:/%3a}*.deb" 2>/dev/null | sort | tail -n 1)
    if [ -n "$file" ]; then
        echo "$file"
        return 0
    fi
    while read -r uri own; do
        name=${suite:-$own}-$component
        make_private_apt "$name" "$uri" "${suite:-$own}" "$component"
        private_apt "$name" apt-get -q update >&2 || continue
        found=$(offered_version "$name" "$package" "$version")
        [ -n "$found" ] || continue
        folder=$(temporary_folder)
        chmod 755 "$folder"
        (cd "$folder" && private_apt "$name" apt-get -q download "$package=$found" >&2) || continue
        mkdir -p "$CACHE/debs"
        for file in "$folder"/*.deb; do
            mv "$file" "$CACHE/debs/"
            echo "$CACHE/debs/${file##*/}"
        done
        return 0
    done < <(debian_mirrors)
    return 1
}
