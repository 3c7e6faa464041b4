package profile

import (
	"cmp"
	"fmt"
	"slices"
)

// Level is how bad a Finding is.
type Level string

// The levels, the worst first.
const (
	Wrong   Level = "error"   // the profile, or a choice of it, gives no notebook
	Doubt   Level = "warning" // it gives one that is not what its words say
	Remark  Level = "note"    // nothing is wrong; something that was written has no effect
	allFile       = ""        // Finding.Profile of what is about the whole file
)

// The codes of findings. They are stable.
const (
	CodeInvalid        = "Invalid"            // it cannot be read or rendered
	CodeSameSlug       = "SameSlug"           // two profiles have one slug
	CodeMovingTag      = "MovingTag"          // an image's tag is latest or master, or there is none
	CodeCPUImage       = "CPUImage"           // an image without CUDA beside a GPU, by its name
	CodeCapabilities   = "DriverCapabilities" // NVIDIA_DRIVER_CAPABILITIES without compute
	CodeNotSelected    = "GPUNotSelected"     // the words name a GPU, and nothing selects it
	CodeNoNode         = "NoNodeMatches"      // no node of the cluster has what is selected
	CodeTooLarge       = "NoNodeHolds"        // no node that is selected is large enough
	CodeIgnoredSlug    = "ChoiceSlugIgnored"  // a choice is known by its key
	CodeUnknownKey     = "UnknownKey"         // a key that nothing reads
	CodeUnused         = "NotUsed"            // a key that only a hub uses
	CodeNoLimit        = "NullClearsLimit"    // null takes a limit away
	CodeNullNothing    = "NullClearsNothing"  // null where nothing was set
	CodeDefaultByOrder = "DefaultByOrder"     // the default depends on the order of keys, which Helm changes
	CodeHome           = "NoHomeVolume"       // volumes replace the home volume
	CodeText           = "NotText"            // an environment variable that is no text
	CodeOther          = "Note"               // anything else to know
	CodeSeveralFiles   = "SeveralDocuments"   // only the first document is read
	CodeTwoDefaults    = "SeveralDefaults"    // more than one default
)

// Finding is something that is wrong, doubtful or without effect in a file of
// profiles.
type Finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"` // from 1; 0 is unknown
	Profile string `json:"profile,omitempty"`
	Key     string `json:"key,omitempty"` // path in the file
	Code    string `json:"code"`
	Level   Level  `json:"level"`
	Text    string `json:"text"`

	order int // by files and lines; see source
}

// String is the finding on one line: "values.yaml:12: KEY: text".
func (f *Finding) String() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	for _, part := range []string{f.Key, f.Text} {
		switch {
		case part == "":
		case where == "":
			where = part
		default:
			where += ": " + part
		}
	}
	return where
}

// sorted puts findings in order of lines and leaves out what is there twice.
func sorted(list []Finding) []Finding {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
	return slices.CompactFunc(list, func(a, b Finding) bool {
		return a.order == b.order && a.Key == b.Key && a.Code == b.Code && a.Text == b.Text
	})
}
