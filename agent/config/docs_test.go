package config_test

import (
	"os"
	"strings"
	"testing"

	"berth.dev/berth/agent/config"
)

// Every example of the page is a file that is accepted.
func TestThePageOfTheConfiguration(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/node-config.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	if len(blocks) < 2 {
		t.Fatal("docs/reference/node-config.md has no YAML examples")
	}
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		if strings.Contains(text, "mig-configs") {
			_, err = config.ParseMIG("docs/reference/node-config.md", []byte(text))
		} else {
			_, _, err = config.ParseSettings("docs/reference/node-config.md", []byte(text))
		}
		if err != nil {
			t.Error(err)
		}
	}
	// Every field of the file that a flag can set is in the table.
	for _, o := range config.Options() {
		parts := strings.Split(o.Path, ".")
		name := parts[len(parts)-1]
		if o.Path != "" && !strings.HasPrefix(o.Path, "flags.gfd") && !strings.Contains(string(page), name) {
			t.Errorf("docs/reference/node-config.md does not name %s", o.Path)
		}
	}
}
