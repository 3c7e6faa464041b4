package finding

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"

	"berth.dev/berth/internal/visible"
)

// The formats of Encode.
const (
	FormatSARIF = "sarif" // SARIF 2.1.0, which code hosts show beside changes
	FormatJUnit = "junit" // JUnit's XML, which CI systems show as tests
)

// Placed is a finding at a line of a file, or in neither.
type Placed struct {
	Finding
	File   string // "" is none
	Line   int    // from 1
	Object string // "" is none
}

// Unplaced returns findings that are in no file.
func Unplaced(list []Finding) []Placed {
	out := make([]Placed, len(list))
	for i := range list {
		out[i] = Placed{Finding: list[i]}
	}
	return out
}

// text is a finding in a line, with what to do.
func (p *Placed) text() string {
	out := visible.Line(p.Seen)
	if p.Object != "" {
		out = visible.Line(p.Object) + ": " + out
	}
	if p.Do != "" {
		out += " -> " + visible.Line(p.Do)
	}
	return out
}

// Encode writes findings of a program and its version in FormatSARIF or FormatJUnit.
func Encode(w io.Writer, format, program, version string, list []Placed) error {
	if format == FormatJUnit {
		return junit(w, program, list)
	}
	return sarif(w, program, version, list)
}

type (
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine int `json:"startLine"`
		} `json:"region"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"` //nolint:tagliatelle // SARIF 2.1.0 has it so
		Kind      string          `json:"kind"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
)

// sarif writes one run. A finding that is ok has the kind pass.
//
// Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
func sarif(w io.Writer, program, version string, list []Placed) error {
	rules, results := []sarifRule{}, []sarifResult{}
	for i := range list {
		p := &list[i]
		if r := (sarifRule{p.Name}); !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
		one := sarifResult{RuleID: p.Name, Kind: "fail", Level: "warning", Message: sarifText{p.text()}}
		switch p.Status {
		case OK:
			one.Kind, one.Level = "pass", "none"
		case Fail:
			one.Level = "error"
		case Warn:
		}
		if p.File != "" {
			var at sarifLocation
			at.Physical.Artifact.URI, at.Physical.Region.StartLine = p.File, max(1, p.Line)
			one.Locations = []sarifLocation{at}
		}
		results = append(results, one)
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{map[string]any{"tool": map[string]any{"driver": map[string]any{"name": program, "version": version, "rules": rules}}, "results": results}},
	})
}

type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junit writes a test suite of a test for each finding: it fails where the finding is a fail.
func junit(w io.Writer, program string, list []Placed) error {
	suite := junitSuite{Name: program, Tests: len(list)}
	for i := range list {
		p := &list[i]
		one := junitCase{Class: program, Name: p.Name}
		if p.File != "" {
			one.Name = fmt.Sprintf("%s %s:%d", p.Name, visible.Line(p.File), p.Line)
		}
		if p.Status == Fail {
			suite.Failures++
			one.Failure = &junitFailure{Message: visible.Line(p.Seen), Text: p.text()}
		} else {
			one.Out = string(p.Status) + ": " + p.text()
		}
		suite.Cases = append(suite.Cases, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", "  ")
	if err := out.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
