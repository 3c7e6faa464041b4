// Package v1alpha1 holds the kinds that Berth owns, of the API group berth.dev in
// version v1alpha1. It holds shapes only: what a profile gives is decided in
// core/profile and kube/profile, and what a queue allows in core/quota.
package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of Berth's own kinds.
const Group = "berth.dev"

// KindNotebookProfile is the kind of a NotebookProfile.
const KindNotebookProfile = "NotebookProfile"

// GroupVersion is the version in which Berth reads and writes its own kinds.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// NotebookProfiles is the resource of NotebookProfile. It has no namespace.
var NotebookProfiles = GroupVersion.WithResource("notebookprofiles")

// NotebookProfile is one entry of a JupyterHub's profileList with all that is
// needed to make notebooks of it. It keeps kubespawner's structure, so that what it
// gives is decided when a notebook is made of it, as kubespawner does.
type NotebookProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec NotebookProfileSpec `json:"spec,omitzero"`
}

// NotebookProfileSpec is the entry. Values are JSON objects as they were read: a
// null in them means that the key is cleared.
type NotebookProfileSpec struct {
	// DisplayName is what people see.
	DisplayName string `json:"displayName"`
	// Slug names the profile in choices; the object has the same name.
	Slug string `json:"slug,omitempty"`
	// Description is a sentence for people, perhaps with HTML in it.
	Description string `json:"description,omitempty"`
	// Order is the position in the file, from 0.
	Order int32 `json:"order"`
	// Default is whether this is the profile of those who choose none. Where
	// no profile is, the first is.
	Default bool `json:"default,omitempty"`
	// AllowedGroups are the groups whose members may use it; absent is everybody.
	AllowedGroups []string `json:"allowedGroups,omitzero"`
	// Base is the section singleuser of the file, without its profileList.
	Base json.RawMessage `json:"base,omitempty"`
	// Override is kubespawner_override.
	Override json.RawMessage `json:"override,omitempty"`
	// Options are profile_options, in the order of the file.
	Options []ProfileOption `json:"options,omitempty"`
	// Extra holds keys that Berth does not know, kept as they were.
	Extra json.RawMessage `json:"extra,omitempty"`
	// Source is where it was read, such as "values.yaml:12".
	Source string `json:"source,omitempty"`
}

// ProfileOption is something to choose in a profile.
type ProfileOption struct {
	// Key names the option in choices.
	Key string `json:"key"`
	// DisplayName is what people see.
	DisplayName string `json:"displayName,omitempty"`
	// Choices are what there is to choose from, in the order of the file. Where
	// none is the default, the first is.
	Choices []ProfileChoice `json:"choices,omitempty"`
	// UnlistedChoice, if enabled, lets the user write a value of their own.
	UnlistedChoice *UnlistedChoice `json:"unlistedChoice,omitempty"`
	// Extra holds keys that Berth does not know, kept as they were.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// ProfileChoice is one thing to choose.
type ProfileChoice struct {
	// Key names the choice.
	Key string `json:"key"`
	// DisplayName is what people see.
	DisplayName string `json:"displayName,omitempty"`
	// Description is a sentence for people.
	Description string `json:"description,omitempty"`
	// Default is whether this is taken where nothing is chosen.
	Default bool `json:"default,omitempty"`
	// AllowedGroups are the groups whose members may choose it; absent is everybody.
	AllowedGroups []string `json:"allowedGroups,omitzero"`
	// Override is kubespawner_override.
	Override json.RawMessage `json:"override,omitempty"`
	// Extra holds keys that Berth does not know, kept as they were.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// UnlistedChoice is a value that the user writes.
type UnlistedChoice struct {
	// Enabled is whether it may be used.
	Enabled bool `json:"enabled,omitempty"`
	// DisplayName is what people see before the field.
	DisplayName string `json:"displayName,omitempty"`
	// DisplayNameInChoices is what people see among the choices.
	DisplayNameInChoices string `json:"displayNameInChoices,omitempty"`
	// DescriptionInChoices is what people see below that.
	DescriptionInChoices string `json:"descriptionInChoices,omitempty"`
	// AllowedGroups are the groups whose members may use it; absent is everybody.
	AllowedGroups []string `json:"allowedGroups,omitzero"`
	// ValidationRegex, if not empty, must match the start of the value.
	ValidationRegex string `json:"validationRegex,omitempty"`
	// ValidationMessage is what the user is told when it does not.
	ValidationMessage string `json:"validationMessage,omitempty"`
	// Override is kubespawner_override. In its texts {value} is what the user wrote.
	Override json.RawMessage `json:"override,omitempty"`
	// Extra holds keys that Berth does not know, kept as they were.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// NotebookProfileList is a list of NotebookProfiles.
type NotebookProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []NotebookProfile `json:"items"`
}

// AddToScheme registers the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NotebookProfile{}, &NotebookProfileList{}, &PriceBook{}, &PriceBookList{}, &Queue{}, &QueueList{}, &GPUUsageDay{}, &GPUUsageDayList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
