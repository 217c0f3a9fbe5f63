# Completion of bulkmonkey for bash: eval "$(bulkmonkey completion bash)"

_bulkmonkey() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} quote= value description position
    local -a values=() descriptions=()
    COMPREPLY=()
    # The line goes by a pipe: arguments can be read by every user, and there may be a key in it.
    while IFS=$'\t' read -r value description; do
        values+=("$value")
        descriptions+=("$description")
    done < <(printf '%s' "$line" | "${COMP_WORDS[0]}" __complete 2>/dev/null)

    [[ $current == [\'\"]* ]] && quote=${current:0:1}
    for position in "${!values[@]}"; do
        value=${values[position]}
        [[ ${#values[@]} -eq 1 && $value == *[=.] ]] && compopt -o nospace
        # Bash cuts words at =, and replaces only what is after it.
        if [[ $value == *=?* && ( $current == "=" || ${COMP_WORDS[COMP_CWORD-1]} == "=" ) ]]; then
            value=${value#*=}
        fi
        [[ -n $quote ]] || value=$(_bulkmonkey_quoted "$value")
        # Descriptions are for lists only: menu completion (37, 42) would type them in.
        if [[ ${#values[@]} -gt 1 && -n ${descriptions[position]} && $COMP_TYPE != 37 && $COMP_TYPE != 42 ]]; then
            value="$value  (${descriptions[position]:0:60})"
        fi
        COMPREPLY+=("$value")
    done
}

_bulkmonkey_quoted() {
    if [[ $1 == *[!A-Za-z0-9_.,:=@%/+-]* ]]; then
        printf '%q' "$1"
    else
        printf '%s' "$1"
    fi
}

complete -o nosort -F _bulkmonkey bulkmonkey
