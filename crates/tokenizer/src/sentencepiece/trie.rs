use std::collections::VecDeque;

/// A set of byte strings, each with a number, searched by prefix.
pub(super) struct Trie {
    nodes: Vec<TrieNode>,
    /// The byte that leads to each node. The children of a node are adjacent and sorted by it.
    labels: Vec<u8>,
}

struct TrieNode {
    first_child: u32,
    children: u16,
    value: Option<u32>,
}

impl Trie {
    pub fn new(mut entries: Vec<(&str, u32)>) -> Self {
        entries.sort_unstable();
        let mut trie = Self { nodes: vec![TrieNode { first_child: 0, children: 0, value: None }], labels: vec![0] };
        // Each open node, with the entries below it and the length of their common prefix.
        let mut open = VecDeque::from([(0, 0..entries.len(), 0)]);
        while let Some((node, mut range, depth)) = open.pop_front() {
            if let Some((text, value)) = entries[range.clone()].first()
                && text.len() == depth
            {
                trie.nodes[node].value = Some(*value);
                range.start += 1;
            }
            trie.nodes[node].first_child = trie.nodes.len() as u32;
            while let Some((text, _)) = entries[range.clone()].first() {
                let label = text.as_bytes()[depth];
                let same = entries[range.clone()].partition_point(|(text, _)| text.as_bytes()[depth] <= label);
                open.push_back((trie.nodes.len(), range.start..range.start + same, depth + 1));
                trie.nodes.push(TrieNode { first_child: 0, children: 0, value: None });
                trie.labels.push(label);
                trie.nodes[node].children += 1;
                range.start += same;
            }
        }
        trie
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Calls `found` with the length and the number of each entry that the bytes start with,
    /// shortest first.
    pub fn prefixes(&self, bytes: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut node = &self.nodes[0];
        for (length, &byte) in (1..).zip(bytes) {
            let first = node.first_child as usize;
            let labels = &self.labels[first..first + usize::from(node.children)];
            let Ok(child) = labels.binary_search(&byte) else { return };
            node = &self.nodes[first + child];
            if let Some(value) = node.value {
                found(length, value);
            }
        }
    }

    pub fn longest_prefix(&self, bytes: &[u8]) -> Option<(usize, u32)> {
        let mut longest = None;
        self.prefixes(bytes, |length, value| longest = Some((length, value)));
        longest
    }
}
