package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// YAMLPrinter prints objects as documents of YAML. Unlike upstream's it takes every text
// that JSON has: upstream reads its own JSON as YAML, which allows no control characters.
type YAMLPrinter struct{ printed int }

// PrintObj implements printers.ResourcePrinter.
func (p *YAMLPrinter) PrintObj(o runtime.Object, w io.Writer) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if raw, err = yaml.JSONToYAML(ascii(raw)); err != nil {
		return err
	}
	if p.printed++; p.printed > 1 {
		raw = append([]byte("---\n"), raw...)
	}
	_, err = w.Write(raw)
	return err
}

// ascii is JSON with escapes for all that cannot be printed. In JSON such letters stand
// in texts alone.
func ascii(raw []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case unicode.IsPrint(r) || r == '\n' || r == '\t':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
