package strictyaml_test

import (
	"testing"

	"berth.dev/berth/internal/strictyaml"
)

func TestSplitKeepsTheLinesOfTheFile(t *testing.T) {
	cases := []struct {
		name string
		text string
		want []int // the line of the key "a" in each document
	}{
		{"nothing", "", nil},
		{"one document", "a: 1\n", []int{1}},
		{"two, with a comment between", "# first\na: 1\n---\n# second\na: 2\n", []int{2, 5}},
		{"empty ones are left out", "---\n---\n# only words\n---\n\na: 1\n---\n", []int{6}},
		{"a line of dashes in a text is text", "a: |\n  ---\n  b\n---\na: 2\n", []int{1, 5}},
		{"a document on the line of dashes", "a: 1\n--- {a: 2}\n", []int{1, 2}},
		{"a comment on the line of dashes", "--- # one\na: 1\n--- # two\na: 2", []int{2, 4}},
		{"dots end a document", "a: 1\n...\na: 2\n", []int{1, 3}},
		{"lines of Windows", "a: 1\r\n---\r\na: 2\r\n", []int{1, 3}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			docs := strictyaml.Split([]byte(c.text))
			if len(docs) != len(c.want) {
				t.Fatalf("got %d documents, want %d: %q", len(docs), len(c.want), docs)
			}
			for i, doc := range docs {
				if line := strictyaml.Locate(doc, "a"); line != c.want[i] {
					t.Errorf("document %d: line %d, want %d", i, line, c.want[i])
				}
			}
		})
	}
}
