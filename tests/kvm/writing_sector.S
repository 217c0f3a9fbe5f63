# A guest of 512 bytes (as --32; ld -m elf_i386 -Ttext 0x7c00 --oformat binary -e _start) that appends a counter to its
# disk: once a second it writes the next number to the sector of that number + 1, and to sector 1 the last number, with
# which it goes on after it has booted again. It writes each number to the serial port. For machine type pc.
.code16
.globl _start
_start:
    ljmp $0, $1f
1:  xor %ax, %ax
    mov %ax, %ds
    mov %ax, %ss
    mov $0x7c00, %sp
    cld
    sti
    mov %dl, drive
    mov $0x42, %ah          # the last number that was written
    call disk
    mov number, %bx
    mov 0x46c, %ax
    mov %ax, last
2:  hlt
    mov 0x46c, %ax          # BIOS ticks, 18.2 a second
    sub last, %ax
    cmp $18, %ax
    jb 2b
    addw $18, last
    inc %bx
    mov %bx, number
    mov %bx, %ax
    inc %ax
    mov %ax, sector
    mov $0x43, %ah
    call disk
    movw $1, sector
    mov $0x43, %ah
    call disk
    mov %bh, %al
    call puthex
    mov %bl, %al
    call puthex
    mov $0xd, %al
    call putc
    mov $0xa, %al
    call putc
    jmp 2b
disk:                       # read (ah 0x42) or write (ah 0x43) one sector
    xor %al, %al
    push %bx
    mov drive, %dl
    mov $packet, %si
    int $0x13
    pop %bx
    ret
putc:                       # character in al
    push %dx
    push %ax
    mov $0x3fd, %dx
3:  in %dx, %al
    test $0x20, %al
    jz 3b
    pop %ax
    mov $0x3f8, %dx
    out %al, %dx
    pop %dx
    ret
puthex:                     # byte in al
    push %ax
    shr $4, %al
    call digit
    pop %ax
    and $15, %al
digit:
    cmp $10, %al
    sbb $0x69, %al
    das
    or $0x20, %al
    jmp putc
last:  .word 0
drive: .byte 0
packet:
    .byte 16, 0
    .word 1, number, 0
sector:
    .quad 1
.org 510
    .word 0xaa55
number = 0x600
