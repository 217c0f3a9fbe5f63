# Completion of bulkmonkey for fish: bulkmonkey completion fish | source

function __bulkmonkey_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    $words[1] __complete $words[2..-1] "$current" 2>/dev/null
end

complete --command bulkmonkey --no-files --keep-order --arguments '(__bulkmonkey_complete)'
