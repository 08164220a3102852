# SPDX-License-Identifier: Apache-2.0
# Completion of ftx for fish. Flags are those that --help lists; hosts are those that ssh knows. Nothing is asked of
# another host.

function __ftx_job
    set -l words (commandline -opc)
    contains -- "$words[2]" serve key doctor; and echo $words[2]
end

function __ftx_flags
    ftx (__ftx_job) --help 2>/dev/null | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr , '\n'
end

# True behind one of these flags, which take a value.
function __ftx_behind
    set -l words (commandline -opc)
    contains -- "$words[-1]" $argv
end

set -l files --stack --key --secret-file --known-hosts --allow
set -l others --ssh --mode --via --congestion -p --name --remote-ftx --connect-timeout --remote-port --rate --datagram-bytes \
    --idle-timeout --accept-key --quota --transfer-max --quota-entries --transfer-max-entries --port --listen
set -l flagged "__ftx_behind $files $others"

complete -c ftx -f
complete -c ftx -n "not $flagged; and string match -q -- '-*' (commandline -ct)" -a '(__ftx_flags)'
complete -c ftx -n "__ftx_behind $files" -F
complete -c ftx -n '__ftx_behind --mode' -a 'layered fused'
complete -c ftx -n '__ftx_behind --via' -a 'auto udp pipe'
complete -c ftx -n '__ftx_behind --congestion' -a 'bbr cubic'
complete -c ftx -n '__ftx_behind --ssh' -a '(__fish_complete_command)'
complete -c ftx -n "test (count (commandline -opc)) = 1" -a 'serve key doctor'
complete -c ftx -n "not $flagged; and not __ftx_job >/dev/null; and not string match -q -- '*:*' (commandline -ct)" -F
complete -c ftx -n "not $flagged; and not __ftx_job >/dev/null; and not string match -q -- '*[/:]*' (commandline -ct)" -a '(__fish_print_hostnames):'
complete -c ftx -n "not $flagged; and test (__ftx_job) = serve" -a '(__fish_complete_directories)'
complete -c ftx -n "not $flagged; and test (__ftx_job) = doctor" -a '(__fish_print_hostnames)'
