// Package strictyaml reads YAML and JSON that people write, strictly: what is wrong
// is reported with the file, the line, the field and the next step, such as the
// nearest name. It opens no file. It is not for objects of the Kubernetes API,
// which have their own rules about unknown fields.
package strictyaml

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

// Error returns "FILE:LINE: FIELD: MESSAGE; FIX", without the parts that are
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
