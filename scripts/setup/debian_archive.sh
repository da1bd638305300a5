# Takes single packages of a chosen Debian suite without touching the machine's own apt state: same mirror and same
# keyring as the machine, but private lists. Needs no root.

# Prints "URI suite" for each source of Debian's own archive that this machine uses.
debian_sources() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Origin: Debian' 'Created-By: Packages' 'Component: main' |
    sort -u
}

debian_keyring() {
  {
    grep -rhoiE '^signed-by: *[^ ]+|signed-by=[^] ]+' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
      sed -E 's/^[^=:]*[=:] *//'
    ls /usr/share/keyrings/debian-archive-keyring.{pgp,gpg} 2>/dev/null
  } | grep -m 1 debian-archive || true
}

# The mirror of the main archive: of the sources, the one whose suite is no -security.
debian_mirror() { debian_sources | awk '$2 !~ /-security$/ { print $1; exit }'; }

# prepare_archive DIR TYPE: reads "URI suite" lines, makes DIR an apt of its own with them, TYPE deb or deb-src.
prepare_archive() {
  local dir=$1 type=$2 keyring uri suite
  keyring=$(debian_keyring)
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/files"
  : >"$dir/status"
  while read -r uri suite; do
    printf '%s %s%s %s main\n' "$type" "${keyring:+[signed-by=$keyring] }" "$uri" "$suite"
  done >"$dir/sources.list"
  [[ -s $dir/sources.list ]] || {
    echo 'No Debian archive among the apt sources of this machine. If it is a Debian: run `apt-get update` first.'
    return 1
  }
  archive_apt "$dir" update
}

archive_apt() {
  local dir=$1
  shift
  apt-get -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$dir/lists" -o Dir::State::Status="$dir/status" -o Dir::Cache="$dir/cache" \
    -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
    -o APT::Update::Error-Mode=any -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 "$@"
}
