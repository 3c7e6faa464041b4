package cli

import "golang.org/x/sys/unix"

// redirect makes file descriptor to another name of from.
func redirect(from, to int) { unix.Dup3(from, to, 0) }
