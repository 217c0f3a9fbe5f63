# Completion of bulkmonkey for bash: eval "$(bulkmonkey completion bash)"

_bulkmonkey() {
    local line=${COMP_LINE:0:COMP_POINT} typed value description position
    local -a values=() descriptions=()
    COMPREPLY=()
    while IFS=$'\t' read -r value description; do
        values+=("$value")
        descriptions+=("$description")
    done < <("${COMP_WORDS[0]}" __complete --line "$line" 2>/dev/null)

    typed=${line##*[[:space:]]}
    for position in "${!values[@]}"; do
        value=${values[position]}
        [[ ${#values[@]} -eq 1 && $value == *= ]] && compopt -o nospace
        # Bash cuts words at =, and replaces only what is after it.
        if [[ $COMP_WORDBREAKS == *=* && $typed == *=* && $value == *=?* ]]; then
            value=${value#*=}
        fi
        [[ $typed == *[\'\"]* ]] || value=$(_bulkmonkey_quoted "$value")
        if [[ ${#values[@]} -gt 1 && -n ${descriptions[position]} ]]; then
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
