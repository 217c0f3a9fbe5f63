# Completion of bulkmonkey for fish: bulkmonkey completion fish | source

function __bulkmonkey_complete
    set -l program (commandline --tokenize --cut-at-cursor --current-process)[1]
    # The line goes by a pipe: arguments can be read by every user, and there may be a key in it.
    commandline --cut-at-cursor --current-process | $program __complete 2>/dev/null
end

complete --command bulkmonkey --no-files --keep-order --arguments '(__bulkmonkey_complete)'
