package finding_test

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/internal/finding"
)

func placed() []finding.Placed {
	return []finding.Placed{
		{Finding: finding.Finding{Name: "plugin-config", Status: finding.OK, Seen: "shares"}, File: "a.yaml", Line: 3},
		{Finding: finding.Finding{Name: "rollout", Status: finding.Warn, Seen: "pods wait <1>", Do: "set maxSurge"}, File: "a.yaml", Line: 7, Object: "Deployment x"},
		{Finding: finding.Finding{Name: "devices", Status: finding.Fail, Seen: "none\x1b[2J", Do: "look"}},
	}
}

func TestSARIFHasALevelAndAPlaceForEachFinding(t *testing.T) {
	var text strings.Builder
	if err := finding.Encode(&text, finding.FormatSARIF, "berth lint", "1", placed()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Name, Version string }
			}
			Results []struct {
				RuleID, Kind, Level string
				Message             struct{ Text string }
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range got.Runs[0].Results {
		at := ""
		if len(r.Locations) > 0 {
			at = r.Locations[0].PhysicalLocation.ArtifactLocation.URI
		}
		lines = append(lines, strings.Join([]string{r.RuleID, r.Kind, r.Level, at, r.Message.Text}, "|"))
	}
	want := []string{"plugin-config|pass|none|a.yaml|shares", "rollout|fail|warning|a.yaml|Deployment x: pods wait <1> -> set maxSurge", `devices|fail|error||none\x1b[2J -> look`}
	if diff := cmp.Diff(want, lines); diff != "" || got.Version != "2.1.0" || got.Runs[0].Tool.Driver.Name != "berth lint" || got.Runs[0].Results[1].Locations[0].PhysicalLocation.Region.StartLine != 7 {
		t.Errorf("(-want +got):\n%s\n%s", diff, text.String())
	}
}

func TestJUnitFailsForAFailAlone(t *testing.T) {
	var text strings.Builder
	if err := finding.Encode(&text, finding.FormatJUnit, "berth doctor", "1", placed()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure string `xml:"failure"`
			Out     string `xml:"system-out"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 3 || got.Failures != 1 || got.Cases[2].Failure != `none\x1b[2J -> look` || got.Cases[1].Name != "rollout a.yaml:7" || got.Cases[1].Out != "warn: Deployment x: pods wait <1> -> set maxSurge" {
		t.Errorf("%+v\n%s", got, text.String())
	}
}
