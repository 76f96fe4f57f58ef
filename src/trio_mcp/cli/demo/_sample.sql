-- The sample database: a plant nursery in June. All of it is invented.

CREATE TABLE beds (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    light TEXT NOT NULL CHECK (light IN ('sun', 'half shade', 'shade'))
);

CREATE TABLE plants (
    id INTEGER PRIMARY KEY,
    bed_id INTEGER NOT NULL REFERENCES beds (id),
    name TEXT NOT NULL,
    height_cm REAL NOT NULL,
    price REAL
);

CREATE TABLE waterings (
    plant_id INTEGER NOT NULL REFERENCES plants (id),
    day TEXT NOT NULL,
    litres REAL NOT NULL
);

INSERT INTO beds (id, name, light) VALUES
    (1, 'south wall', 'sun'),
    (2, 'under the pear tree', 'half shade'),
    (3, 'by the pond', 'half shade'),
    (4, 'behind the shed', 'shade');

INSERT INTO plants (id, bed_id, name, height_cm, price) VALUES
    (1, 1, 'rosemary', 42.0, 6.50),
    (2, 1, 'lavender', 35.5, 5.90),
    (3, 1, 'fig', 120.0, 34.00),
    (4, 1, 'tomato', 88.0, 3.20),
    (5, 2, 'strawberry', 14.0, 1.80),
    (6, 2, 'foxglove', 97.5, 4.40),
    (7, 2, 'columbine', 51.0, 3.90),
    (8, 3, 'iris', 73.0, 7.20),
    (9, 3, 'marsh marigold', 28.5, 5.10),
    (10, 4, 'fern', 66.0, 8.30),
    (11, 4, 'hosta', 45.0, 9.60),
    (12, 4, 'the one nobody can name', 31.0, NULL);

INSERT INTO waterings (plant_id, day, litres) VALUES
    (1, '2026-06-02', 0.5), (2, '2026-06-02', 0.5), (3, '2026-06-02', 4.0), (4, '2026-06-02', 2.5),
    (5, '2026-06-03', 1.0), (6, '2026-06-03', 1.5), (7, '2026-06-03', 1.0), (8, '2026-06-03', 2.0),
    (9, '2026-06-04', 3.0), (10, '2026-06-04', 1.0), (11, '2026-06-04', 1.5), (12, '2026-06-04', 0.5),
    (1, '2026-06-09', 0.5), (2, '2026-06-09', 0.5), (3, '2026-06-09', 4.5), (4, '2026-06-09', 3.0),
    (5, '2026-06-10', 1.0), (6, '2026-06-10', 1.5), (7, '2026-06-10', 1.0), (8, '2026-06-10', 2.0),
    (9, '2026-06-11', 3.0), (10, '2026-06-11', 1.0), (11, '2026-06-11', 1.5), (12, '2026-06-11', 1.0),
    (1, '2026-06-16', 1.0), (2, '2026-06-16', 0.5), (3, '2026-06-16', 5.0), (4, '2026-06-16', 3.5),
    (5, '2026-06-17', 1.5), (6, '2026-06-17', 2.0), (7, '2026-06-17', 1.0), (8, '2026-06-17', 2.5),
    (9, '2026-06-18', 3.5), (10, '2026-06-18', 1.5), (11, '2026-06-18', 1.5), (12, '2026-06-18', 2.0),
    (1, '2026-06-23', 1.0), (2, '2026-06-23', 1.0), (3, '2026-06-23', 6.0), (4, '2026-06-23', 4.0),
    (5, '2026-06-24', 1.5), (6, '2026-06-24', 2.0), (7, '2026-06-24', 1.5), (8, '2026-06-24', 2.5),
    (9, '2026-06-25', 3.5), (10, '2026-06-25', 1.5), (11, '2026-06-25', 2.0), (12, '2026-06-25', 4.0);
