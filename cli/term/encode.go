package term

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// CheckEncoding refuses an --output that Encode does not know; "" is that none is asked for.
func CheckEncoding(format string) error {
	if format != "" && format != "json" && format != "yaml" {
		return Usagef("invalid --output %q: must be json or yaml", format)
	}
	return nil
}

// Encode prints one value as an object: json, or yaml. The fields are those of its JSON.
func Encode(w io.Writer, format string, value any) error {
	if err := CheckEncoding(format); err != nil {
		return err
	}
	var raw []byte
	var err error
	if format == "yaml" {
		raw, err = yaml.Marshal(value)
	} else if raw, err = json.MarshalIndent(value, "", "    "); err == nil {
		raw = append(raw, '\n')
	}
	if err == nil {
		_, err = Exact(w).Write(raw)
	}
	return err
}
