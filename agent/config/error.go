// Package config reads configuration files strictly: NVIDIA's device plugin
// configuration (Parse), and any other YAML or JSON that belongs to Berth
// (Decode). What is wrong is said with file, line, field and the next step. It
// applies nothing, and it does not read flags or the environment.
package config

import (
	"strconv"
	"strings"
)

// Error is why a file is refused.
type Error struct {
	File    string
	Line    int    // from 1; 0 is unknown
	Field   string // dotted path, such as "sharing.mps.resources[0].name"; "" is the whole file
	Message string // what is wrong, in NVIDIA's own words where it has some
	Fix     string // what to do, such as `did you mean "replicas"?`; "" is unknown
}

// Error gives "FILE:LINE: FIELD: MESSAGE; FIX", without the parts that are
// unknown.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Message)
	if e.Fix != "" {
		b.WriteString("; " + e.Fix)
	}
	return b.String()
}
