package strictyaml

import (
	"bytes"
	"strings"
)

// Split returns the documents of a YAML file, without those that are empty. Each begins with as many
// empty lines as are before it in the file, so Parse names the lines of the file, and a document that is
// wrong leaves the others readable.
func Split(data []byte) [][]byte {
	var out [][]byte
	var one bytes.Buffer
	empty := true
	end := func(at int) {
		if !empty {
			out = append(out, bytes.Clone(one.Bytes()))
		}
		one.Reset()
		one.WriteString(strings.Repeat("\n", at))
		empty = true
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		switch text := bytes.TrimRight(line, " \t\r\n"); {
		case bytes.Equal(text, []byte("---")) || bytes.Equal(text, []byte("...")):
			end(i + 1)
			continue
		case bytes.HasPrefix(line, []byte("--- ")) && !bytes.HasPrefix(bytes.TrimSpace(text[3:]), []byte("#")):
			end(i)
		case bytes.HasPrefix(line, []byte("--- ")):
			end(i + 1)
			continue
		}
		text := bytes.TrimSpace(line)
		empty = empty && (len(text) == 0 || text[0] == '#')
		one.Write(line)
	}
	end(0)
	return out
}
