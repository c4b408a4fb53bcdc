#!/bin/sh
# Downloads the current release of a channel into a folder from which tunefarm-runner installs:
#
#     fetch.sh https://farm.example.org/v1/edge stable /var/lib/model/source --key HEX
#
# It needs curl, sha256sum and tunefarm-runner on the PATH. TUNEFARM_TOKEN_FILE names a file with the device's token. An
# interrupted download resumes, and files of earlier releases are removed. Further arguments go to tunefarm-runner, which
# verifies the text before any file is fetched.
set -eu

[ $# -ge 5 ] || { echo "usage: fetch.sh URL CHANNEL FOLDER --key HEX [options of tunefarm-runner]" >&2; exit 2; }
url=${1%/} channel=$2 folder=$3
shift 3
loopback='^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/|$)'
case $url in
https://*) ;;
*) printf '%s\n' "$url" | grep -Eq "$loopback" || { echo "$url is not an https address" >&2; exit 2; } ;;
esac
case $channel in
'' | *[!a-z0-9._-]*) echo "$channel is not the name of a channel" >&2; exit 2 ;;
esac

# Downloads BYTES of a path at most into a file, or a little more. A server that sends less than 256 bytes a second for a
# minute is given up.
get() {
  path=$1 bytes=$2 file=$3
  shift 3
  set -- --fail --silent --show-error --speed-limit 256 --speed-time 60 --connect-timeout 10 "$@"
  [ -z "${TUNEFARM_TOKEN_FILE:-}" ] || set -- --config - "$@"
  [ -z "${TUNEFARM_TOKEN_FILE:-}" ] || token=$(cat "$TUNEFARM_TOKEN_FILE")
  printf 'header = "Authorization: Bearer %s"\n' "${token:-}" | (
    ulimit -f $((bytes / 512 + 1))
    exec curl "$@" --output "$file" "$url/$path"
  )
}

mkdir -p "$folder/runners" "$folder/files" "$folder/partial"
# The text first: the signatures include those of the text before.
for ending in runner sig; do
  get "runners/$channel.$ending" 65536 "$folder/runners/.new" || { echo "unreachable: $url/runners" >&2; exit 1; }
  mv "$folder/runners/.new" "$folder/runners/$channel.$ending"
done

tunefarm-runner missing "$folder" --channel "$channel" "$@" >"$folder/missing"
# What no text of the folder names any more makes room. The one of this channel is verified by now.
for file in "$folder"/files/* "$folder"/partial/*; do
  [ ! -f "$file" ] || grep -q " ${file##*/}\$" "$folder"/runners/*.runner || rm "$file"
done
while read -r size digest; do
  partial=$folder/partial/$digest
  touch "$partial"
  came=$(wc -c <"$partial")
  if [ "$came" -lt "$size" ]; then
    get "files/$digest" "$size" "$partial" --continue-at "$came" || [ $? -ne 33 ] || {
      : >"$partial" # the server has no ranges
      get "files/$digest" "$size" "$partial" || true
    }
    came=$(wc -c <"$partial")
  fi
  [ "$came" -ge "$size" ] || { echo "unreachable: files/$digest ended after $came of $size bytes" >&2; exit 1; }
  if [ "$(sha256sum <"$partial" | cut -d ' ' -f 1)" != "$digest" ]; then
    rm "$partial"
    echo "tampered: files/$digest has other content than its name says" >&2
    exit 1
  fi
  mv "$partial" "$folder/files/$digest"
done <"$folder/missing"
