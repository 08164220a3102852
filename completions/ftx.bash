# SPDX-License-Identifier: Apache-2.0
# Completion of ftx for bash, with bash-completion. Flags are those that --help lists; hosts are those of the ssh
# configuration and its known hosts. Nothing is asked of another host.

_ftx() {
  local cur prev words cword
  _init_completion -n : || return
  local job=
  case ${words[1]} in
    serve | key | doctor) job=${words[1]} ;;
  esac
  case $prev in
    --stack | --key | --secret-file | --known-hosts | --allow) _filedir; return ;;
    --ssh) COMPREPLY=($(compgen -c -- "$cur")); return ;;
    --mode) COMPREPLY=($(compgen -W "layered fused" -- "$cur")); return ;;
    --via) COMPREPLY=($(compgen -W "auto udp pipe" -- "$cur")); return ;;
    --congestion) COMPREPLY=($(compgen -W "bbr cubic" -- "$cur")); return ;;
    --listen) _ip_addresses -a; return ;;
    -p | --name | --remote-ftx | --connect-timeout | --remote-port | --rate | --datagram-bytes | --idle-timeout | \
      --accept-key | --quota | --transfer-max | --quota-entries | --transfer-max-entries | --port) return ;;
  esac
  case $cur in
    -*)
      COMPREPLY=($(compgen -W "$("$1" $job --help 2>/dev/null | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr , ' ')" -- "$cur"))
      return
      ;;
    *:*) return ;;  # a path of another host
  esac
  case $job in
    serve) _filedir -d; return ;;
    key) return ;;
    doctor) _known_hosts_real -a -- "$cur"; return ;;
  esac
  [[ $cur == */* ]] || _known_hosts_real -c -a -- "$cur"
  ((cword > 1)) || COMPREPLY+=($(compgen -W "serve key doctor" -- "$cur"))
  compopt -o nospace 2>/dev/null
  _filedir
} && complete -F _ftx ftx
