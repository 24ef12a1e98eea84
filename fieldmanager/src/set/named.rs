//! Named fields as members.

use super::FieldSet;
use crate::path::PathElement;
use crate::schema::TypeRef;

impl FieldSet {
    /// Returns the set with all named fields on the way to its members. For `.a.b.c`, `.a` is added
    /// where it is a property, and `.a.b` is not where it is an entry of a map.
    #[must_use]
    pub(crate) fn with_named_fields(&self, of: &TypeRef) -> Self {
        let atom = of.resolve();
        let is_named = |element: &PathElement| match (element, &atom.map) {
            (PathElement::Field(name), Some(map)) => map.fields.contains_key(name),
            _ => false,
        };
        let mut members = self.members.clone();
        members.extend(self.children.keys().filter(|key| is_named(key)).cloned());
        let below = |element: &PathElement| match (element, &atom.map, &atom.list) {
            (PathElement::Field(name), Some(map), _) => map.type_of(name),
            (PathElement::Key(_), _, Some(list)) => &list.items,
            _ => &TypeRef::Undeclared,
        };
        Self {
            members,
            children: self
                .children
                .iter()
                .map(|(element, child)| (element.clone(), child.with_named_fields(below(element))))
                .collect(),
        }
    }
}
