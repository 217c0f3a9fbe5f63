#compdef bulkmonkey
# Completion of bulkmonkey for zsh: eval "$(bulkmonkey completion zsh)"

_bulkmonkey() {
    local value description line="${(j: :)words[1,CURRENT-1]} ${words[CURRENT][1,${#QIPREFIX}+${#PREFIX}]}"
    local -a open_values open_shown values shown
    while IFS=$'\t' read -r value description; do
        if [[ $value == *[=.] ]]; then
            open_values+=("$value")
            open_shown+=("$value${description:+  ($description)}")
        else
            values+=("$value")
            shown+=("${value#*=}${description:+  ($description)}")
        fi
        # The line goes by a pipe: arguments can be read by every user, and there may be a key in it.
    done < <(printf '%s' "$line" | "${words[1]}" __complete 2>/dev/null)
    # -U: what is offered may differ in case from what was typed. -S '': the value follows at once.
    (( ${#open_values} )) && compadd -U -l -S '' -d open_shown -a open_values
    (( ${#values} )) && compadd -U -l -d shown -a values
}

if [[ $zsh_eval_context == *func ]]; then
    _bulkmonkey "$@"
else
    compdef _bulkmonkey bulkmonkey
fi
